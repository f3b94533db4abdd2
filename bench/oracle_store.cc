#include "bench/oracle_store.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>

#include "ir/text.h"
#include "schedule/trace.h"
#include "support/clock.h"
#include "support/statistics.h"

namespace autotune::bench {
namespace {

constexpr char kSettingsKey[] = "oracle";

bool IsItsOwn(TrialStatus status) {
  return status != TrialStatus::kInfrastructure && status != TrialStatus::kDeviceError &&
         status != TrialStatus::kCancelled;
}

// Returns the name of the CPU, such as "AMD EPYC 9R14 Processor"; empty if the operating system does not report it.
std::string MachineName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name") && line.find(": ") != std::string::npos) return line.substr(line.find(": ") + 2);
  }
  return "";
}

Result<RecordedTask> RecordTask(const DrawnTask& drawn, const std::vector<Candidate>& candidates, const Target& target,
                                int& skipped) {
  RecordedTask task{
      .kind = drawn.kind, .hash = drawn.task.hash.Hex(), .label = drawn.task.label, .flops = drawn.task.flops};
  for (const TaskAlternative& alternative : drawn.task.alternatives)
    task.alternatives.push_back({alternative.name, ToText(alternative.func)});
  TaskSpace space = TRY(TaskSpace::Make(drawn.task, target));
  for (const Candidate& candidate : candidates) {
    const Record& record = candidate.record;
    std::optional<Proposal> proposal = Locate(space, record.alternative, TRY(ParseTrace(record.trace)));
    if (!proposal) {
      ++skipped;
      continue;
    }
    task.candidates.push_back({.alternative = record.alternative,
                               .trace = record.trace,
                               .status = candidate.Ran() ? TrialStatus::kOk : record.status,
                               .seconds = candidate.Ran() ? candidate.Seconds() : record.cost,
                               .confirmed = !candidate.in_turns.empty(),
                               .features = std::move(proposal->features)});
  }
  return task;
}

}  // namespace

double Candidate::Seconds() const { return Median(in_turns.empty() ? costs : in_turns); }

Result<std::optional<OracleSettings>> FindSettings(RecordStore& store) {
  std::optional<RunState> run = TRY(store.GetRun(kSettingsKey));
  if (!run) return std::optional<OracleSettings>();
  return std::optional<OracleSettings>(TRY(FromJson<OracleSettings>(run->state)));
}

Status StoreSettings(RecordStore& store, const OracleSettings& settings) {
  return store.PutRun({.key = kSettingsKey, .state = ToJson(settings), .updated_at = WallMillis()});
}

Result<std::vector<Candidate>> CandidatesOf(RecordStore& store, const TuneTask& task, const Target& target,
                                            const std::optional<RecordVersions>& versions) {
  std::map<std::string, Candidate> candidates;  // by alternative and trace
  for (int64_t cursor = 0;;) {
    RecordPage page = TRY(store.Scan({.task = task.hash.Hex(), .target = target.Text()}, cursor, 500));
    if (page.records.empty()) break;
    cursor = page.cursor;
    for (Record& record : page.records) {
      if (!IsItsOwn(record.status) || (versions && ToJson(record.versions) != ToJson(*versions))) continue;
      Candidate& candidate = candidates[record.alternative + '\n' + record.trace];
      const bool ran_before = candidate.Ran();
      if (IsRanked(record)) (record.confirmation ? candidate.in_turns : candidate.costs).push_back(record.cost);
      if (!ran_before) candidate.record = std::move(record);
    }
  }
  std::vector<Candidate> list;
  for (auto& [key, candidate] : candidates) list.push_back(std::move(candidate));
  auto order = [](const Candidate& c) { return c.Ran() ? c.Seconds() : std::numeric_limits<double>::infinity(); };
  std::stable_sort(list.begin(), list.end(),
                   [&](const Candidate& a, const Candidate& b) { return order(a) < order(b); });
  return list;
}

Result<Recording> MakeRecording(RecordStore& store, const OracleSettings& settings, const std::vector<DrawnTask>& tasks,
                                const Target& target, int& skipped) {
  Recording recording;
  recording.header = {.target = target.Text(), .machine = MachineName(), .seed = settings.seed};
  // The versions of the latest record count. Times of other versions cannot be compared with its time.
  std::optional<RecordVersions> versions;
  int64_t latest = 0;
  for (const DrawnTask& drawn : tasks) {
    for (const Candidate& candidate : TRY(CandidatesOf(store, drawn.task, target))) {
      if (candidate.record.created_at <= latest) continue;
      latest = candidate.record.created_at;
      versions = candidate.record.versions;
    }
  }
  if (!versions) return Err("the database has no record of these tasks for ", target.Text());
  recording.header.versions = *versions;
  recording.header.versions.feature_schema = kFeatureVersion;
  for (const DrawnTask& drawn : tasks) {
    std::vector<Candidate> candidates = TRY(CandidatesOf(store, drawn.task, target, versions));
    if (candidates.empty() || !candidates[0].Ran()) continue;  // nothing to compare with
    recording.tasks.push_back(TRY_NOTE(RecordTask(drawn, candidates, target, skipped), "in task " + drawn.task.label));
  }
  return recording;
}

}  // namespace autotune::bench
