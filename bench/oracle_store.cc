#include "bench/oracle_store.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <span>

#include "ir/text.h"
#include "schedule/trace.h"
#include "support/clock.h"
#include "support/statistics.h"

namespace autotune::bench {
namespace {

constexpr char kSettingsKey[] = "oracle";
// Milliseconds. Records of one confirmation are stored at once, so a longer gap separates two confirmations.
constexpr int64_t kConfirmationGap = 2000;

// Returns true if the candidate itself determines the status, not the farm or the device.
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

std::string KeyOf(const Record& record) { return record.alternative + '\n' + record.trace; }

// Returns the task's records in the order stored, without failures for which the candidate is not to blame.
Result<std::vector<Record>> RecordsOf(RecordStore& store, const TuneTask& task, const Target& target,
                                      const std::optional<RecordVersions>& versions) {
  std::vector<Record> records;
  for (int64_t cursor = 0;;) {
    RecordPage page = TRY(store.Scan({.task = task.hash.Hex(), .target = target.Text()}, cursor, 500));
    if (page.records.empty()) return records;
    cursor = page.cursor;
    for (Record& record : page.records) {
      if (IsItsOwn(record.status) && (!versions || ToJson(record.versions) == ToJson(*versions)))
        records.push_back(std::move(record));
    }
  }
}

// Adds the times of one confirmation to the candidates. The machine may have been faster or slower then than during the
// trials. So the times are divided by the median, over the candidates, of confirmed time / time in trials.
void AddConfirmation(std::span<const Record> records, std::map<std::string, Candidate>& candidates) {
  std::vector<double> ratios;
  for (const Record& record : records) {
    const Candidate& candidate = candidates[KeyOf(record)];
    if (IsRanked(record) && !candidate.costs.empty()) ratios.push_back(record.cost / Median(candidate.costs));
  }
  const double state = ratios.empty() ? 1 : Median(std::move(ratios));
  for (const Record& record : records) {
    if (IsRanked(record)) candidates[KeyOf(record)].in_turns.push_back(record.cost / state);
  }
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
  std::vector<Record> records = TRY(RecordsOf(store, task, target, versions));
  std::map<std::string, Candidate> candidates;  // KeyOf the record -> candidate
  for (const Record& record : records) {
    Candidate& candidate = candidates[KeyOf(record)];
    if (!candidate.Ran()) candidate.record = record;
    if (IsRanked(record) && record.confirmation == 0) candidate.costs.push_back(record.cost);
  }
  for (auto begin = records.begin(); begin != records.end();) {
    auto end = std::next(begin);
    while (end != records.end() && begin->confirmation > 0 && end->confirmation > 0 &&
           end->created_at - std::prev(end)->created_at < kConfirmationGap)
      ++end;
    if (begin->confirmation > 0) AddConfirmation({begin, end}, candidates);
    begin = end;
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
    if (candidates.empty() || !candidates[0].Ran()) continue;  // no candidate of this task ran
    recording.tasks.push_back(TRY_NOTE(RecordTask(drawn, candidates, target, skipped), "in task " + drawn.task.label));
  }
  return recording;
}

}  // namespace autotune::bench
