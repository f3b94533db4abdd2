#include "tuner/run_log.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ir/text.h"
#include "schedule/trace.h"
#include "support/clock.h"

namespace autotune {
namespace {

constexpr int kKnown = 12;  // most stored schedules that a task starts from

Json RoundOf(const Record& record) {
  return record.confirmation > 0 ? Json() : std::as_const(record.facts)[kRoundFact];
}

}  // namespace

RecordVersions CurrentVersions() {
  return {kIrTextVersion, kStepLanguageVersion, kFeatureVersion, kCodeGeneratorVersion};
}

std::vector<std::string> VersionParts() {
  return {"ir " + std::to_string(kIrTextVersion), "steps " + std::to_string(kStepLanguageVersion),
          "features " + std::to_string(kFeatureVersion), "code generator " + std::to_string(kCodeGeneratorVersion),
          "search " + std::to_string(kSearchVersion)};
}

Result<RunLog::Start> RunLog::Begin(const TaskStates& tasks) {
  Start start{.peak_flops = options_.peak_flops};
  RunState run{.key = options_.run};
  if (!options_.run.empty()) {
    if (std::optional<RunState> stored = TRY(store_.GetRun(options_.run))) run = std::move(*stored);
  }
  const Json& state = run.state;
  if (const Json::Array* known = state["known"].As<Json::Array>()) {
    for (const Json& id : *known) {
      const std::string* text = id.As<std::string>();
      std::optional<Record> record;
      if (text) record = TRY(store_.Get(*text));
      if (record) start.known.push_back(std::move(*record));
    }
    start.peak_flops = state["peak_flops"].Number().value_or(0);
    return start;
  }
  Json::Array ids;
  for (const auto& task : tasks) {
    if (!options_.use_known) break;
    for (Record& record : TRY(store_.Top(task->space().task->hash.Hex(), target_.Text(), kKnown))) {
      if (record.run == options_.run && !options_.run.empty()) continue;
      if (record.versions.code_generator != kCodeGeneratorVersion) continue;
      ids.push_back(record.id);
      start.known.push_back(std::move(record));
    }
  }
  if (options_.run.empty()) return start;
  run.state["known"] = std::move(ids);
  run.state["peak_flops"] = start.peak_flops;
  run.updated_at = WallMillis();
  TRY(store_.PutRun(run));
  return start;
}

Record RunLog::Make(const TaskState& task, const Proposal& proposal, const Outcome& outcome) const {
  const TuneTask& of = *task.space().task;
  const TaskAlternative& alternative = of.alternatives[task.space().sketches[proposal.sketch].alternative];
  Record record;
  record.id = NewRecordId();
  record.task = of.hash.Hex();
  record.alternative = alternative.name;
  record.func = ToText(alternative.func);
  record.trace = ToText(proposal.trace);
  record.target = target_.Text();
  record.device = outcome.device;
  record.server = outcome.server;
  record.times = outcome.times;
  record.cost = outcome.cost;
  record.status = outcome.status;
  record.error = outcome.error;
  record.verified = outcome.verified;
  record.disturbed = outcome.disturbed;
  record.run = options_.run;
  record.seed = options_.seed;
  record.versions = CurrentVersions();
  record.created_at = WallMillis();
  record.facts = outcome.facts;
  record.facts["label"] = of.label;
  record.facts[kColdBytesFact] = options_.measure.cold_bytes;
  if (outcome.reference_seconds > 0) record.facts[kReferenceFact] = outcome.reference_seconds;
  return record;
}

Result<std::vector<std::vector<Record>>> RunLog::Groups() {
  std::vector<std::vector<Record>> groups;
  int64_t cursor = 0;
  while (!options_.run.empty()) {
    RecordPage page = TRY(store_.Scan({.target = target_.Text(), .run = options_.run}, cursor, 500));
    if (page.records.empty()) break;
    cursor = page.cursor;
    for (Record& record : page.records) {
      bool same = !groups.empty() && RoundOf(groups.back().front()) == RoundOf(record) &&
                  (record.confirmation == 0 || groups.back().front().task == record.task);
      if (!same) groups.emplace_back();
      groups.back().push_back(std::move(record));
    }
  }
  return groups;
}

Result<std::optional<Record>> RunLog::Best(const TaskState& task) {
  return store_.Best(task.space().task->hash.Hex(), target_.Text());
}

Result<int64_t> RunLog::NextConfirmation(const TaskState& task) {
  int64_t last = 0;
  constexpr int kAll = std::numeric_limits<int>::max();
  for (const Record& record : TRY(store_.Top(task.space().task->hash.Hex(), target_.Text(), kAll)))
    last = std::max(last, record.confirmation);
  return last + 1;
}

TaskState* TaskOf(const TaskStates& tasks, const Record& record) {
  for (const auto& state : tasks) {
    if (state->space().task->hash.Hex() == record.task) return state.get();
  }
  return nullptr;
}

}  // namespace autotune
