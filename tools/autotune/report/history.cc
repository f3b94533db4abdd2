#include "tools/autotune/report/history.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "compiler/compile.h"
#include "records/choice.h"
#include "support/utf8.h"

namespace autotune::tools::report {
namespace {

// Follows the records of all tasks in the order in which they were stored.
class Historian {
 public:
  explicit Historian(Report& report) : report_(report) {
    for (Kernel& kernel : report.kernels) by_task_[kernel.task] = &kernel;
  }

  void Add(const Record& record) {
    const auto found = by_task_.find(record.task);
    if (found == by_task_.end()) return;
    Kernel& kernel = *found->second;
    History& history = kernel.history ? *kernel.history : kernel.history.emplace();
    ++history.records;
    ++history.outcomes[std::string(ToText(record.status))];
    if (record.status != TrialStatus::kOk) AddFailure(record);
    if (IsTrial(record)) ++history.trials, ++trials_;
    if (!IsRanked(record)) return;
    AddDefault(record, history);
    if (record.confirmation > 0) return;
    if (record.disturbed.empty()) undisturbed_.insert(record.task);
    trials_that_ran_.push_back({&kernel, history.trials, trials_, record.cost * 1e6, !record.disturbed.empty()});
  }

  void Finish() {
    for (auto& [outcome, failure] : failures_) report_.failures.push_back(std::move(failure));
    std::ranges::stable_sort(report_.failures, std::greater<>(), &Failure::count);
    AddProgress();
  }

 private:
  using Rank = std::tuple<bool, int64_t, double>;  // ascending, as in RecordStore::Top
  struct Default {
    std::string schedule;
    Rank rank;
  };
  static Rank RankOf(const Record& record) { return {!record.disturbed.empty(), -record.confirmation, record.cost}; }
  static std::string ScheduleOf(const Record& record) { return record.alternative + "\n" + record.trace; }

  void AddFailure(const Record& record) {
    Failure& failure = failures_[record.status];
    failure.outcome = std::string(ToText(record.status));
    ++failure.count;
    if (!failure.first_error.empty() || record.error.empty()) return;
    failure.first_error = OneLine(record.error);
    failure.task = record.task;
  }

  // The first candidates of a task are its default schedules, until one of them works. Of the records of that one,
  // takes the time of the one that RecordStore::Top ranks first.
  void AddDefault(const Record& record, History& history) {
    const auto [found, first] = defaults_.try_emplace(record.task, Default{ScheduleOf(record), RankOf(record)});
    Default& known = found->second;
    if (known.schedule != ScheduleOf(record) || (!first && known.rank <= RankOf(record))) return;
    known.rank = RankOf(record);
    history.default_us = record.cost * 1e6;
  }

  // Follows the best time of each task, and the sum over tasks of calls x best time from the trial on that gave the
  // last task its first time. Disturbed times count where a task has no others, as in RecordStore::Top.
  void AddProgress() {
    std::set<const Kernel*> all, measured;
    for (const Ran& ran : trials_that_ran_) all.insert(ran.kernel);
    double sum = 0;
    for (const Ran& ran : trials_that_ran_) {
      std::vector<Progress>& progress = ran.kernel->history->progress;
      const double before = progress.empty() ? 0 : progress.back().best_us;
      if (ran.disturbed && undisturbed_.contains(ran.kernel->task)) continue;
      if (!progress.empty() && ran.us >= before) continue;
      progress.push_back({ran.trials, ran.us});
      measured.insert(ran.kernel);
      sum += static_cast<double>(ran.kernel->calls) * (ran.us - before);
      if (measured.size() == all.size()) report_.progress.push_back({ran.all_trials, sum});
    }
    if (!report_.progress.empty() && report_.progress.back().trials < trials_)
      report_.progress.push_back({trials_, report_.progress.back().best_us});
  }

  // A trial that ran and was right.
  struct Ran {
    Kernel* kernel = nullptr;
    int64_t trials = 0, all_trials = 0;  // so far, of its task and of all
    double us = 0;
    bool disturbed = false;
  };

  Report& report_;
  std::map<std::string, Kernel*> by_task_;
  std::map<std::string, Default> defaults_;  // by task
  std::map<TrialStatus, Failure> failures_;
  std::vector<Ran> trials_that_ran_;
  std::set<std::string> undisturbed_;  // tasks with an undisturbed time
  int64_t trials_ = 0;                 // of all tasks
};

Choice ChoiceOf(const NetworkChoice& stored) {
  Choice choice{.model = OneLine(stored.model),
                .network = stored.network,
                .created_at = stored.created_at,
                .current = IsCurrent(stored),
                .tasks = static_cast<int64_t>(stored.schedules.size())};
  for (const ChosenSchedule& schedule : stored.schedules) choice.tuned_tasks += schedule.seconds > 0;
  for (const NetworkComparison& c : stored.comparisons) {
    choice.speeds.push_back({.threads = c.threads,
                             .untuned_ms = c.default_seconds * 1e3,
                             .tuned_ms = c.default_seconds * c.ratio * 1e3,
                             .speedup = 1 / c.ratio,
                             .speedup_low = 1 / c.ratio_high,
                             .speedup_high = 1 / c.ratio_low,
                             .pairs = c.pairs});
  }
  return choice;
}

}  // namespace

Status AddHistories(RecordStore& store, const std::string& target, Report& report) {
  constexpr int kPage = 500;
  Historian historian(report);
  for (int64_t cursor = 0;;) {
    const RecordPage page = TRY(store.Scan({.target = target}, cursor, kPage));
    if (page.records.empty()) break;
    cursor = page.cursor;
    for (const Record& record : page.records) historian.Add(record);
  }
  historian.Finish();
  for (Kernel& kernel : report.kernels) {
    if (!kernel.history) continue;
    const std::optional<Record> best = TRY(store.Best(kernel.task, target));
    if (!best) continue;
    kernel.history->best_us = best->cost * 1e6;
    kernel.history->best_record = best->id;
  }
  return {};
}

Status AddChoices(RecordStore& store, const std::string& target, Report& report) {
  std::set<std::string> tasks;
  for (const Kernel& kernel : report.kernels) tasks.insert(kernel.task);
  for (const NetworkChoice& choice : TRY(ListChoices(store))) {
    if (choice.target != target) continue;
    std::set<std::string> chosen;
    for (const ChosenSchedule& schedule : choice.schedules) chosen.insert(schedule.task);
    if (report.kind == "database" || chosen == tasks) report.choices.push_back(ChoiceOf(choice));
  }
  return {};
}

}  // namespace autotune::tools::report
