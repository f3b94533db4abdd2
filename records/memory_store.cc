#include "records/memory_store.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "records/distinct.h"
#include "support/clock.h"

namespace autotune {
namespace {

bool Matches(const RecordFilter& filter, const Record& record) {
  return (filter.task.empty() || filter.task == record.task) &&
         (filter.target.empty() || filter.target == record.target) &&
         (filter.run.empty() || filter.run == record.run) && (!filter.status || *filter.status == record.status) &&
         (!filter.trials_only || IsTrial(record));
}

class MemoryStore : public RecordStore {
 public:
  Status Append(std::span<const Record> batch, const RunState* run, int64_t* added) override {
    if (added) *added = 0;
    for (const Record& record : batch) TRY(ValidateRecord(record));
    std::lock_guard lock(mutex_);
    for (const Record& record : batch) TRY(rules_.MayAppend(record.run, StoredClaimOf(record.run)));
    if (run) TRY(rules_.MayAppend(run->key, StoredClaimOf(run->key)));
    for (const Record& record : batch) {
      if (!positions_.emplace(record.id, records_.size()).second) continue;
      if (added) ++*added;
      Add(record);
    }
    if (run) runs_[run->key] = *run;
    return {};
  }

  Result<std::vector<Record>> Top(std::string_view task, std::string_view target, int n) override {
    std::lock_guard lock(mutex_);
    DistinctSchedules top(n);
    auto by_task = ranked_.find(task);
    if (by_task == ranked_.end()) return top.Take();
    auto ranking = by_task->second.find(target);
    if (ranking == by_task->second.end()) return top.Take();
    for (auto it = ranking->second.begin(); it != ranking->second.end() && !top.full(); ++it) {
      top.Add(records_[std::get<3>(*it)]);
    }
    return top.Take();
  }

  Result<std::vector<std::string>> Targets(std::string_view task) override {
    std::lock_guard lock(mutex_);
    std::vector<std::string> targets;
    auto by_task = ranked_.find(task);
    if (by_task == ranked_.end()) return targets;
    for (const auto& [target, ranking] : by_task->second) targets.push_back(target);
    return targets;
  }

  Result<RecordPage> Scan(const RecordFilter& filter, int64_t cursor, int limit) override {
    std::lock_guard lock(mutex_);
    RecordPage page{{}, cursor};
    for (size_t i = static_cast<size_t>(cursor); i < records_.size(); ++i) {
      if (static_cast<int>(page.records.size()) >= limit) break;
      if (!Matches(filter, records_[i])) continue;
      page.records.push_back(records_[i]);
      page.cursor = static_cast<int64_t>(i) + 1;
    }
    return page;
  }

  Result<int64_t> Count(const RecordFilter& filter) override {
    std::lock_guard lock(mutex_);
    return std::count_if(records_.begin(), records_.end(), [&](const Record& r) { return Matches(filter, r); });
  }

  Result<std::optional<RunState>> GetRun(std::string_view key) override {
    std::lock_guard lock(mutex_);
    auto it = runs_.find(key);
    return it == runs_.end() ? std::nullopt : std::optional<RunState>(it->second);
  }

  Result<std::vector<RunState>> Runs() override {
    std::lock_guard lock(mutex_);
    std::vector<RunState> runs;
    for (const auto& [key, run] : runs_) runs.push_back(run);
    return runs;
  }

  Result<bool> RemoveRun(std::string_view key) override {
    std::lock_guard lock(mutex_);
    auto it = runs_.find(key);
    if (it == runs_.end()) return false;
    runs_.erase(it);
    return true;
  }

  Result<RunClaim> Claim(std::string_view run, const RunOwner& owner, int64_t ttl_ms) override {
    std::lock_guard lock(mutex_);
    StoredClaim next;
    RunClaim claim = rules_.Judge(run, owner, ttl_ms, StoredClaimOf(run), BootMillis(), &next);
    if (claim.granted) claims_[std::string(run)] = next;
    return claim;
  }

  Status Release(std::string_view run, const RunOwner& owner) override {
    std::lock_guard lock(mutex_);
    rules_.Release(run, owner);
    auto it = claims_.find(run);
    if (it != claims_.end() && it->second.owner.id == owner.id) claims_.erase(it);
    return {};
  }

  Result<std::optional<Record>> Get(std::string_view id) override {
    std::lock_guard lock(mutex_);
    auto it = positions_.find(std::string(id));
    return it == positions_.end() ? std::nullopt : std::optional<Record>(records_[it->second]);
  }

  Result<std::vector<TaskSummary>> Tasks() override {
    std::lock_guard lock(mutex_);
    std::map<std::pair<std::string, std::string>, TaskSummary> tasks;
    for (const Record& record : records_) {
      TaskSummary& task = tasks[{record.task, record.target}];
      task.task = record.task;
      task.target = record.target;
      ++task.records;
      task.trials += IsTrial(record);
      if (!IsRanked(record)) continue;
      ++task.ranked;
    }
    std::vector<TaskSummary> sorted;
    for (auto& [key, task] : tasks) sorted.push_back(std::move(task));
    return sorted;
  }

  Result<std::vector<PruneCount>> Prune(int keep, bool dry_run) override {
    std::lock_guard lock(mutex_);
    std::vector<PruneCount> counts;
    std::unordered_set<std::string> kept;
    for (const TaskSummary& task : TRY(Tasks())) {
      std::vector<Record> top = TRY(Top(task.task, task.target, keep));
      for (const Record& record : top) kept.insert(record.id);
      int64_t left = static_cast<int64_t>(top.size());
      counts.push_back({.task = task.task, .target = task.target, .kept = left, .removed = task.records - left});
    }
    if (dry_run) return counts;
    std::vector<Record> all = std::move(records_);
    records_.clear();
    positions_.clear();
    ranked_.clear();
    for (const Record& record : all) {
      if (kept.count(record.id) == 0) continue;
      positions_.emplace(record.id, records_.size());
      Add(record);
    }
    return counts;
  }

  Status Check() override { return {}; }

 private:
  std::optional<StoredClaim> StoredClaimOf(std::string_view run) const {
    auto it = claims_.find(run);
    return it == claims_.end() ? std::nullopt : std::optional(it->second);
  }

  void Add(const Record& record) {
    if (IsRanked(record))
      ranked_[record.task][record.target].emplace(!record.disturbed.empty(), -record.confirmation, record.cost,
                                                  records_.size());
    records_.push_back(record);
  }

  using Ranking = std::set<std::tuple<bool, int64_t, double, size_t>>;  // disturbed, -confirmation, cost, position
  std::recursive_mutex mutex_;                                          // recursive, since Prune calls other members
  std::vector<Record> records_;
  std::unordered_map<std::string, size_t> positions_;                                       // by id
  std::map<std::string, std::map<std::string, Ranking, std::less<>>, std::less<>> ranked_;  // by task, target
  std::map<std::string, RunState, std::less<>> runs_;
  std::map<std::string, StoredClaim, std::less<>> claims_;  // by run
  ClaimRules rules_;
};

}  // namespace

std::unique_ptr<RecordStore> NewMemoryStore() { return std::make_unique<MemoryStore>(); }

}  // namespace autotune
