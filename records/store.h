// RecordStore: the interface and the promises of a record database. It knows text and numbers only; callers know what a
// trace, a target or a task means. Thread-safe: any method from any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "records/record.h"
#include "support/result.h"

namespace autotune {

// Which records; an empty member matches all.
struct RecordFilter {
  std::string task;
  std::string target;
  std::string run;
  std::optional<TrialStatus> status;
  bool trials_only = false;  // IsTrial
};

// What the store holds of one task on one target.
struct TaskSummary {
  std::string task, target;
  int64_t records = 0, trials = 0, ranked = 0;  // all; IsTrial; IsRanked
  double best_seconds = 0;                      // least cost; 0: none is ranked
};

// What Prune leaves of them.
struct PruneCount {
  std::string task, target;
  int64_t kept = 0, removed = 0;
};

struct RecordPage {
  std::vector<Record> records;
  int64_t cursor = 0;  // where the next Scan goes on
};

class RecordStore {
 public:
  virtual ~RecordStore() = default;

  // Stores the batch, and the run's state if given, all or nothing. Returns only after they are safe on disk: what was
  // acknowledged survives kill -9 and power loss. Records whose id is known already are left as they are; `added`, if
  // given, becomes the number of the others.
  virtual Status Append(std::span<const Record> batch, const RunState* run = nullptr, int64_t* added = nullptr) = 0;

  // The n best distinct schedules (alternative, func, trace) among records that are ok and verified: those confirmed
  // last, then those confirmed before, then the others; each group cheapest first, equal costs in the order stored.
  virtual Result<std::vector<Record>> Top(std::string_view task, std::string_view target, int n) = 0;
  // The first of these.
  Result<std::optional<Record>> Best(std::string_view task, std::string_view target);

  // The targets for which Best has an answer, sorted.
  virtual Result<std::vector<std::string>> Targets(std::string_view task) = 0;

  // The record with this id, if any.
  virtual Result<std::optional<Record>> Get(std::string_view id) = 0;

  // All tasks, sorted by task and target. Reads every record.
  virtual Result<std::vector<TaskSummary>> Tasks() = 0;

  // Up to `limit` records stored after `cursor`, in the order stored; 0 is the beginning. An empty page means the end
  // for now: the same cursor finds what is stored later.
  virtual Result<RecordPage> Scan(const RecordFilter& filter, int64_t cursor, int limit) = 0;
  virtual Result<int64_t> Count(const RecordFilter& filter) = 0;

  // Stores or replaces the state of a run.
  Status PutRun(const RunState& run) { return Append({}, &run); }
  virtual Result<std::optional<RunState>> GetRun(std::string_view key) = 0;
  virtual Result<std::vector<RunState>> Runs() = 0;  // sorted by key

  // Deletes, all or nothing, every record but the `keep` best distinct schedules of each task and target (those that
  // Top gives), failures included; states of runs stay. Sorted as Tasks. `dry_run`: deletes nothing.
  virtual Result<std::vector<PruneCount>> Prune(int keep, bool dry_run) = 0;

  // Reads the whole database and reports the first damage. Seconds for a million records.
  virtual Status Check() = 0;
};

}  // namespace autotune
