#include "records/memory_store.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <unordered_set>

#include "records/distinct.h"

namespace autotune {
namespace {

bool Matches(const RecordFilter& filter, const Record& record) {
  return (filter.task.empty() || filter.task == record.task) &&
         (filter.target.empty() || filter.target == record.target) &&
         (filter.run.empty() || filter.run == record.run) && (!filter.status || *filter.status == record.status) &&
         (!filter.trials_only || WasExecuted(record.status));
}

class MemoryStore : public RecordStore {
 public:
  Status Append(std::span<const Record> batch, const RunState* run) override {
    for (const Record& record : batch) TRY(ValidateRecord(record));
    std::lock_guard lock(mutex_);
    for (const Record& record : batch) {
      if (!ids_.insert(record.id).second) continue;
      if (IsRanked(record)) ranked_[record.task][record.target].emplace(record.cost, records_.size());
      records_.push_back(record);
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
      top.Add(records_[it->second]);
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

  Status Check() override { return {}; }

 private:
  using Ranking = std::set<std::pair<double, size_t>>;  // cost, position
  std::mutex mutex_;
  std::vector<Record> records_;
  std::unordered_set<std::string> ids_;
  std::map<std::string, std::map<std::string, Ranking, std::less<>>, std::less<>> ranked_;  // task, target
  std::map<std::string, RunState, std::less<>> runs_;
};

}  // namespace

std::unique_ptr<RecordStore> NewMemoryStore() { return std::make_unique<MemoryStore>(); }

}  // namespace autotune
