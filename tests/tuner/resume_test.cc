// Tests that a resumed run makes the same decisions as an uninterrupted one, wherever it was interrupted.
#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "records/memory_store.h"
#include "schedule/trace.h"
#include "tests/tuner/simulated.h"
#include "tuner/tune.h"

namespace autotune {
namespace {

using test::TestTarget;

// The script of an unreliable device: every third call is slower, and some candidates fail, by their own fault or by
// the farm's.
Outcome Rough(test::Scripted& device, const MeasureItem& item, const std::string& trace) {
  uint64_t hash = Hash64(trace);
  if (item.check && hash % 5 == 0) return test::Failure(hash % 2 ? TrialStatus::kRejected : TrialStatus::kRunCrashed);
  if (item.check && hash % 11 == 0 && device.times[trace] == 1) return test::Failure(TrialStatus::kInfrastructure);
  Outcome outcome = device.Good(item, trace);
  if (device.calls.size() % 3 == 0) outcome.times = {outcome.cost *= 1.4};
  if (item.cutoff_seconds > 0 && outcome.cost > item.cutoff_seconds)
    return {.status = TrialStatus::kCutOff, .error = "slow", .cost = outcome.cost};
  return outcome;
}

// Returns a database with the records of another run.
std::unique_ptr<RecordStore> WarmStore(const std::vector<TuneTask>& tasks) {
  auto store = NewMemoryStore();
  test::Scripted device(Rough);
  TuneOptions options{.trials = 24, .seed = 77, .search = SearchKind::kRandom, .run = "before", .lock_host = false};
  EXPECT_TRUE(Tune(tasks, TestTarget(), options, *store, device).ok());
  return store;
}

void ExpectEqualWhereverInterrupted(TuneOptions options) {
  std::vector<TuneTask> tasks = test::TwoTasks();
  auto store = WarmStore(tasks);
  test::Scripted uninterrupted(Rough);
  int rounds = 0;
  auto whole = Tune(tasks, TestTarget(), options, *store, uninterrupted,
                    [&](const TuneReport& report, const TaskReport&) { rounds += report.to_confirm == 0; });
  ASSERT_TRUE(whole.ok()) << whole.error().Text();
  int marked = 0;
  for (const Record& record : store->Scan({.run = options.run}, 0, 1000).value().records)
    marked += !record.facts["machine"].IsNull();
  EXPECT_GT(marked, 0) << "the run must notice the machine's two states";
  ASSERT_GE(rounds, 4);
  for (int at = 1; at < rounds; ++at) {
    auto again = WarmStore(tasks);
    test::Scripted device(Rough);
    std::atomic<bool> stop = false;
    int round = 0;
    auto first = Tune(
        tasks, TestTarget(), options, *again, device,
        [&](const TuneReport&, const TaskReport&) { stop = ++round == at; }, &stop);
    ASSERT_TRUE(first.ok() && first->interrupted);
    auto second = Tune(tasks, TestTarget(), options, *again, device);
    ASSERT_TRUE(second.ok()) << second.error().Text();
    EXPECT_EQ(second->resumed_trials, first->trials);
    ASSERT_EQ(device.calls, uninterrupted.calls) << "interrupted after round " << at;
    for (size_t i = 0; i < tasks.size(); ++i) {
      EXPECT_EQ(second->tasks[i].best_trace, whole->tasks[i].best_trace);
      EXPECT_EQ(second->tasks[i].best_seconds, whole->tasks[i].best_seconds);
      EXPECT_EQ(second->tasks[i].default_seconds, whole->tasks[i].default_seconds);
      EXPECT_EQ(second->tasks[i].failures, whole->tasks[i].failures);
    }
    // A finished run has nothing left to do.
    size_t measured = device.calls.size();
    ASSERT_TRUE(Tune(tasks, TestTarget(), options, *again, device).ok());
    EXPECT_EQ(device.calls.size(), measured);
  }
}

TEST(Resume, EqualsTheUninterruptedRun) {
  ExpectEqualWhereverInterrupted({.trials = 64, .seed = 1, .run = "r", .lock_host = false});
}

TEST(Resume, EqualsTheUninterruptedRunOfARandomSearch) {
  ExpectEqualWhereverInterrupted(
      {.trials = 80, .seed = 3, .search = SearchKind::kRandom, .run = "r", .lock_host = false});
}

TEST(Resume, AnotherRunStartsAnew) {
  std::vector<TuneTask> tasks = test::TwoTasks();
  auto store = NewMemoryStore();
  test::Scripted device(Rough);
  TuneOptions options{.trials = 16, .seed = 1, .search = SearchKind::kRandom, .run = "r", .lock_host = false};
  ASSERT_TRUE(Tune(tasks, TestTarget(), options, *store, device).ok());
  options.run = "s";
  auto other = Tune(tasks, TestTarget(), options, *store, device);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->resumed_trials, 0);
  EXPECT_EQ(other->trials, 16);
}

// A stop after a batch's candidates but before the last run of its reference kernel. Without the reference the run
// would decide otherwise, so the batch does not count, and the resumed run repeats it.
TEST(Resume, RepeatsABatchWhoseReferenceWasCancelled) {
  std::vector<TuneTask> tasks = test::TwoTasks();
  TuneOptions options{.trials = 64, .seed = 1, .run = "r", .lock_host = false};
  auto good = [](test::Scripted& d, const MeasureItem& item, const std::string& t) { return d.Good(item, t); };
  test::Scripted uninterrupted(good);
  ASSERT_TRUE(Tune(tasks, TestTarget(), options, *NewMemoryStore(), uninterrupted).ok());

  constexpr size_t kStopped = 3;  // number of the call that is cancelled; the first two find the default schedules
  int cancelled = 0;
  test::Scripted device([&](test::Scripted& d, const MeasureItem& item, const std::string& t) {
    const auto& call = d.calls.back();
    const bool last_reference = !item.check && call.size() > 2 && call.front() == call.back();
    if (d.calls.size() != kStopped || !last_reference) return d.Good(item, t);
    ++cancelled;
    return test::Failure(TrialStatus::kCancelled);
  });
  auto store = NewMemoryStore();
  auto first = Tune(tasks, TestTarget(), options, *store, device);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(first->interrupted);
  ASSERT_EQ(cancelled, 1);
  ASSERT_EQ(device.calls.size(), kStopped);
  ASSERT_TRUE(Tune(tasks, TestTarget(), options, *store, device).ok());
  EXPECT_EQ(device.calls[kStopped - 1], device.calls[kStopped]);
  device.calls.erase(device.calls.begin() + kStopped);
  EXPECT_EQ(device.calls, uninterrupted.calls);
}

// A run that was interrupted between two confirmations makes the second one as if it had not been interrupted.
TEST(Resume, GoesOnWithTheConfirmationsThatAreMissing) {
  // Later candidates are faster, so each task has a challenger of its default schedule.
  struct Improving {
    double age = 1;
    std::map<std::string, double> ages;
    Outcome operator()(test::Scripted& d, const MeasureItem& item, const std::string& t) {
      Outcome outcome = d.Good(item, t);
      auto [place, first] = ages.emplace(item.space->task->label + t, age);
      if (first) age *= 0.99;
      outcome.cost = 1e-3 * place->second;
      outcome.times = {outcome.cost};
      return outcome;
    }
  };
  std::vector<TuneTask> tasks = test::TwoTasks();
  TuneOptions options{.trials = 64, .seed = 1, .run = "r", .lock_host = false};
  test::Scripted uninterrupted{Improving()};
  auto whole = Tune(tasks, TestTarget(), options, *NewMemoryStore(), uninterrupted);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->confirmed, 2);

  auto store = NewMemoryStore();
  test::Scripted device{Improving()};
  std::atomic<bool> stop = false;
  auto first = Tune(
      tasks, TestTarget(), options, *store, device,
      [&](const TuneReport& so_far, const TaskReport&) { stop = so_far.confirmed == 1; }, &stop);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(first->interrupted);
  EXPECT_EQ(first->to_confirm, 2);
  EXPECT_EQ(first->confirmed, 1);
  EXPECT_LT(device.calls.size(), uninterrupted.calls.size());
  auto second = Tune(tasks, TestTarget(), options, *store, device);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->trials, first->trials);
  EXPECT_EQ(second->to_confirm, 1);
  EXPECT_EQ(second->confirmed, 1);
  EXPECT_EQ(device.calls, uninterrupted.calls);
  for (size_t i = 0; i < tasks.size(); ++i) {
    EXPECT_EQ(second->tasks[i].best_trace, whole->tasks[i].best_trace);
    EXPECT_EQ(second->tasks[i].best_seconds, whole->tasks[i].best_seconds);
  }
}

}  // namespace
}  // namespace autotune
