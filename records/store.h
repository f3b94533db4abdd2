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
#include "records/run_claim.h"
#include "support/result.h"

namespace autotune {

// Selects records. An empty member matches all of them.
struct RecordFilter {
  std::string task;
  std::string target;
  std::string run;
  std::optional<TrialStatus> status;
  bool trials_only = false;  // only records for which IsTrial is true
};

// The store's contents for one task on one target.
struct TaskSummary {
  std::string task, target;
  int64_t records = 0, trials = 0, ranked = 0;  // number of all records, of trials (IsTrial), of IsRanked ones
};

// The numbers of records of one task on one target that Prune keeps and removes.
struct PruneCount {
  std::string task, target;
  int64_t kept = 0, removed = 0;
};

struct RecordPage {
  std::vector<Record> records;
  int64_t cursor = 0;  // start of the next Scan
};

class RecordStore {
 public:
  virtual ~RecordStore() = default;

  // Stores the batch, and the run's state if given, all or nothing. Returns only after they are safe on disk, so they
  // survive kill -9 and power loss. A record whose id is already stored is skipped. `added`, if given, becomes the
  // number of records stored. Fails if the batch belongs to a run that this store had granted (Claim) and that another
  // process has taken over.
  virtual Status Append(std::span<const Record> batch, const RunState* run = nullptr, int64_t* added = nullptr) = 0;

  // Returns the n best distinct schedules (alternative, func, trace) among records that are ok and verified. Order:
  // undisturbed ones first, then greatest confirmation number (see Record), then least cost, then the order stored.
  virtual Result<std::vector<Record>> Top(std::string_view task, std::string_view target, int n) = 0;
  // Returns the first record of Top, if any.
  Result<std::optional<Record>> Best(std::string_view task, std::string_view target);

  // Returns the targets for which Best finds a record, sorted.
  virtual Result<std::vector<std::string>> Targets(std::string_view task) = 0;

  // The record with this id, if any.
  virtual Result<std::optional<Record>> Get(std::string_view id) = 0;

  // All tasks, sorted by task and target. Reads every record.
  virtual Result<std::vector<TaskSummary>> Tasks() = 0;

  // Returns up to `limit` matching records after `cursor`, in the order stored. Cursor 0 is the beginning. An empty
  // page means that no more are stored yet; a later Scan with the same cursor finds newer records.
  virtual Result<RecordPage> Scan(const RecordFilter& filter, int64_t cursor, int limit) = 0;
  virtual Result<int64_t> Count(const RecordFilter& filter) = 0;

  // Stores or replaces the state of a run.
  Status PutRun(const RunState& run) { return Append({}, &run); }
  virtual Result<std::optional<RunState>> GetRun(std::string_view key) = 0;
  virtual Result<std::vector<RunState>> Runs() = 0;  // sorted by key
  // Deletes the state of a run. Returns whether there was one.
  virtual Result<bool> RemoveRun(std::string_view key) = 0;

  // Makes `owner` the owner of a run for `ttl_ms`, or renews its claim. Otherwise the answer names the other owner. An
  // owner that is known to be dead is replaced at once, one on another host when it has not renewed for its time to
  // live (records/run_claim.h).
  virtual Result<RunClaim> Claim(std::string_view run, const RunOwner& owner, int64_t ttl_ms) = 0;
  // Ends the claim if `owner` still has it.
  virtual Status Release(std::string_view run, const RunOwner& owner) = 0;

  // For each task and target, keeps the `keep` records that Top returns and deletes all others, failures included. All
  // or nothing. States of runs stay. Returns counts in the order of Tasks. With `dry_run`, only counts.
  virtual Result<std::vector<PruneCount>> Prune(int keep, bool dry_run) = 0;

  // Reads the whole database and reports the first damage. Takes seconds for a million records.
  virtual Status Check() = 0;
};

}  // namespace autotune
