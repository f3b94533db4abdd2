// The whole loop against a simulated device: a pure function of the candidate, with injected failures.
#include "tuner/tune.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "records/memory_store.h"
#include "schedule/trace.h"
#include "tests/tuner/programs.h"
#include "tuner/confirm.h"

namespace autotune {
namespace {

using test::ConvBiasRelu;
using test::Dense;
using test::MakeTask;
using test::TestTarget;

class Simulated : public Measurer {
 public:
  Result<std::vector<Outcome>> Measure(const TaskSpace& space, const std::vector<Proposal>& proposals,
                                       const MeasureOptions&) override {
    std::vector<Outcome> outcomes;
    for (const Proposal& proposal : proposals) {
      uint64_t hash = Hash64(ToText(proposal.trace));
      order.push_back(hash);
      Outcome outcome;
      if (all_fail || hash % 7 == 0) {
        outcome.status = all_fail   ? TrialStatus::kRunCrashed
                         : hash % 2 ? TrialStatus::kRejected
                                    : TrialStatus::kWrongAnswer;
        outcome.error = "injected";
        outcome.cost = outcome.status == TrialStatus::kWrongAnswer ? 1e-9 : 0;  // fast, but wrong
      } else {
        outcome.status = TrialStatus::kOk;
        outcome.verified = true;
        double noise = 1 + 0.2 * static_cast<double>(hash % 1000) / 1000;
        outcome.cost = DraftSeconds(space.sketches[proposal.sketch], proposal.decisions, space.target) * noise;
        truth[ToText(proposal.trace)] = outcome.cost;
        outcome.times = {outcome.cost};
      }
      outcomes.push_back(outcome);
    }
    return outcomes;
  }
  bool all_fail = false;
  std::vector<uint64_t> order;
  std::map<std::string, double> truth;  // by trace
};

std::vector<TuneTask> Tasks() {
  return {MakeTask("conv", ConvBiasRelu(14, 14, 16, 32, 3, {.pad = {1, 1, 1, 1}}), 3),
          MakeTask("dense", Dense(16, 96, 64))};
}

TEST(Tune, SpendsTheBudgetAndImproves) {
  std::vector<TuneTask> tasks = Tasks();
  auto store = NewMemoryStore();
  Simulated device;
  auto report = Tune(tasks, TestTarget(), {.trials = 64, .seed = 1, .run = "r", .lock_host = false}, *store, device);
  ASSERT_TRUE(report.ok()) << report.error().Text();
  EXPECT_GE(report->trials, 64);
  EXPECT_LE(report->trials, 64 + 16);
  EXPECT_EQ(*store->Count({.run = "r", .trials_only = true}), report->trials);
  for (const TaskReport& task : report->tasks) {
    EXPECT_GT(task.trials, 8);
    EXPECT_GT(task.default_seconds, 0);
    EXPECT_LE(task.best_seconds, task.default_seconds);
    EXPECT_GT(task.best_seconds, 1e-8) << "a wrong answer became best";
    auto best = store->Best(task.task->hash.Hex(), TestTarget().Text());
    ASSERT_TRUE(best.ok() && best->has_value());
    EXPECT_EQ((*best)->trace, task.best_trace);
  }
}

TEST(Tune, OneSeedOneRun) {
  std::vector<TuneTask> tasks = Tasks();
  std::vector<uint64_t> orders[3];
  for (int i = 0; i < 3; ++i) {
    auto store = NewMemoryStore();
    Simulated device;
    ASSERT_TRUE(Tune(tasks, TestTarget(), {.trials = 48, .seed = i == 2 ? 9u : 4u, .run = "r", .lock_host = false},
                     *store, device)
                    .ok());
    orders[i] = device.order;
  }
  EXPECT_EQ(orders[0], orders[1]);
  EXPECT_NE(orders[0], orders[2]);
}

TEST(Tune, ResumesWithoutRepeating) {
  std::vector<TuneTask> tasks = Tasks();
  auto store = NewMemoryStore();
  Simulated device;
  std::atomic<bool> stop = false;
  int rounds = 0;
  TuneOptions options{.trials = 64, .seed = 1, .run = "r", .confirm = false, .lock_host = false};
  auto first = Tune(
      tasks, TestTarget(), options, *store, device, [&](const TuneReport&, const TaskReport&) { stop = ++rounds == 3; },
      &stop);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(first->interrupted);
  size_t before = device.order.size();
  auto second = Tune(tasks, TestTarget(), options, *store, device);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->resumed_trials, first->trials);
  EXPECT_GE(second->trials, 64);
  std::set<uint64_t> distinct(device.order.begin(), device.order.end());
  EXPECT_EQ(distinct.size(), device.order.size()) << "something was measured twice";
  EXPECT_GT(device.order.size(), before);
  // A finished run has nothing left to do.
  size_t after = device.order.size();
  ASSERT_TRUE(Tune(tasks, TestTarget(), options, *store, device).ok());
  EXPECT_EQ(device.order.size(), after);
}

// A device on which the slowest of the first batch seems the fastest of all when it is measured first, and every
// candidate tells the truth when it is measured again.
class LuckyOnce : public Simulated {
 public:
  Result<std::vector<Outcome>> Measure(const TaskSpace& space, const std::vector<Proposal>& proposals,
                                       const MeasureOptions& options) override {
    std::vector<Outcome> outcomes = TRY(Simulated::Measure(space, proposals, options));
    for (size_t i = 0; i < proposals.size(); ++i) {
      if (outcomes[i].status == TrialStatus::kOk) ++times[ToText(proposals[i].trace)];
    }
    if (lucky.empty()) {
      Outcome* slowest = nullptr;
      for (size_t i = 0; i < proposals.size(); ++i) {
        if (outcomes[i].status != TrialStatus::kOk || (slowest && outcomes[i].cost <= slowest->cost)) continue;
        slowest = &outcomes[i];
        lucky = ToText(proposals[i].trace);
      }
      if (slowest) slowest->times = {slowest->cost = 1e-12};
    }
    return outcomes;
  }
  std::string lucky;                 // its trace
  std::map<std::string, int> times;  // good measurements, by trace
};

TEST(Tune, ConfirmationTakesTheWinFromTheLucky) {
  for (bool confirm : {false, true}) {
    std::vector<TuneTask> tasks = {Tasks()[1]};
    auto store = NewMemoryStore();
    LuckyOnce device;
    TuneOptions options{.trials = 40, .seed = 1, .run = "r", .confirm = confirm, .lock_host = false};
    auto report = Tune(tasks, TestTarget(), options, *store, device);
    ASSERT_TRUE(report.ok()) << report.error().Text();
    auto best = store->Best(tasks[0].hash.Hex(), TestTarget().Text());
    ASSERT_TRUE(best.ok() && *best);
    EXPECT_EQ((*best)->trace, report->tasks[0].best_trace);
    ASSERT_FALSE(device.lucky.empty());
    if (!confirm) {
      EXPECT_EQ((*best)->trace, device.lucky);
      continue;
    }
    // The lucky one was a finalist, and the fastest of them is what is left.
    std::vector<std::string> finalists;
    for (const auto& [trace, count] : device.times) {
      if (count > 1) finalists.push_back(trace);
    }
    EXPECT_GE(finalists.size(), 3u);
    EXPECT_EQ(std::count(finalists.begin(), finalists.end(), device.lucky), 1);
    auto fastest = std::min_element(finalists.begin(), finalists.end(), [&](const auto& a, const auto& b) {
      return device.truth.at(a) < device.truth.at(b);
    });
    EXPECT_EQ((*best)->trace, *fastest);
    EXPECT_NE(*fastest, device.lucky);
    EXPECT_DOUBLE_EQ((*best)->cost, device.truth.at(*fastest));
  }
}

TEST(Tune, ConfirmsOnceAndGoesOnWithWhatIsMissing) {
  std::vector<TuneTask> tasks = Tasks();
  auto store = NewMemoryStore();
  Simulated device;
  TuneOptions options{.trials = 64, .seed = 1, .run = "r", .lock_host = false};
  std::atomic<bool> stop = false;
  auto first = Tune(
      tasks, TestTarget(), options, *store, device,
      [&](const TuneReport& so_far, const TaskReport&) { stop = so_far.confirmed == 1; }, &stop);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(first->interrupted);
  EXPECT_EQ(first->confirmed, 1);
  auto confirmations = [&] {
    return *store->Count({.run = "r"}) - *store->Count({.run = "r", .status = TrialStatus::kRejected}) -
           *store->Count({.run = "r", .trials_only = true});
  };
  int64_t of_one = confirmations();
  EXPECT_GE(of_one, 2);
  auto second = Tune(tasks, TestTarget(), options, *store, device);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->trials, first->trials);
  EXPECT_GT(confirmations(), of_one);
  size_t measured = device.order.size();
  auto third = Tune(tasks, TestTarget(), options, *store, device);
  ASSERT_TRUE(third.ok());
  EXPECT_EQ(device.order.size(), measured) << "a finished run has nothing left to do";
  for (const TaskReport& task : third->tasks) {
    auto best = store->Best(task.task->hash.Hex(), TestTarget().Text());
    ASSERT_TRUE(best.ok() && *best);
    EXPECT_EQ((*best)->trace, task.best_trace);
  }
}

// A device on which the call decides what comes of each proposal.
class Scripted : public Measurer {
 public:
  explicit Scripted(std::function<Outcome(int batch, size_t place)> outcome) : outcome_(std::move(outcome)) {}
  Result<std::vector<Outcome>> Measure(const TaskSpace&, const std::vector<Proposal>& proposals,
                                       const MeasureOptions&) override {
    std::vector<Outcome> outcomes;
    for (size_t i = 0; i < proposals.size(); ++i) {
      outcomes.push_back(outcome_(batch_, static_cast<size_t>(proposals[i].draft_seconds)));
      order.push_back(static_cast<int>(proposals[i].draft_seconds));
    }
    ++batch_;
    return outcomes;
  }
  std::vector<int> order;

 private:
  std::function<Outcome(int, size_t)> outcome_;
  int batch_ = 0;
};

TEST(Confirm, TakesTurnsAndTheMedianDecides) {
  std::vector<TuneTask> tasks = Tasks();
  auto space = TaskSpace::Make(tasks[0], TestTarget());
  ASSERT_TRUE(space.ok());
  std::vector<Proposal> finalists(2);
  finalists[1].draft_seconds = 1;
  // The first is faster in every turn but one; the machine as a whole is at two speeds.
  Scripted device([](int batch, size_t which) {
    double cost = (which == 0 ? 1.0 : 1.1) * (batch == 2 ? 0.5 : 1) * (which == 0 && batch == 0 ? 9 : 1);
    return Outcome{.status = TrialStatus::kOk, .times = {cost, cost + 1}, .cost = cost, .verified = true};
  });
  auto outcomes = MeasureInTurns(device, *space, finalists, 4, {});
  ASSERT_TRUE(outcomes.ok());
  EXPECT_EQ(device.order, (std::vector<int>{0, 1, 1, 0, 0, 1, 1, 0}));
  EXPECT_DOUBLE_EQ((*outcomes)[0].cost, 1.0);
  EXPECT_DOUBLE_EQ((*outcomes)[1].cost, 1.1);
  EXPECT_EQ((*outcomes)[0].times.size(), 8u);
}

TEST(Confirm, OneThatFailsOnceHasFailed) {
  std::vector<TuneTask> tasks = Tasks();
  auto space = TaskSpace::Make(tasks[0], TestTarget());
  ASSERT_TRUE(space.ok());
  std::vector<Proposal> finalists(2);
  finalists[1].draft_seconds = 1;
  Scripted device([](int batch, size_t which) {
    bool bad = which == 1 && batch == 1;
    return Outcome{
        .status = bad ? TrialStatus::kWrongAnswer : TrialStatus::kOk, .cost = bad ? 0.0 : 1.0, .verified = !bad};
  });
  auto outcomes = MeasureInTurns(device, *space, finalists, 3, {});
  ASSERT_TRUE(outcomes.ok());
  EXPECT_TRUE((*outcomes)[0].verified);
  EXPECT_EQ((*outcomes)[1].status, TrialStatus::kWrongAnswer);
  EXPECT_FALSE((*outcomes)[1].verified);
}

TEST(Tune, GivesUpWithTheCauseWhenNothingWorks) {
  std::vector<TuneTask> tasks = Tasks();
  auto store = NewMemoryStore();
  Simulated device;
  device.all_fail = true;
  auto report = Tune(tasks, TestTarget(), {.trials = 200, .seed = 1, .run = "r", .lock_host = false}, *store, device);
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.error().message.find("run crashed: injected"), std::string::npos) << report.error().Text();
  EXPECT_LE(device.order.size(), 32u);
}

// Whatever becomes of the candidates, and also when the run is gone on with and holds records that this search cannot
// place: what is reported is what was asked for, by status, and all of it is in the store.
TEST(Tune, TheAccountsAreExact) {
  class Mixed : public Simulated {
   public:
    Result<std::vector<Outcome>> Measure(const TaskSpace& space, const std::vector<Proposal>& proposals,
                                         const MeasureOptions& options) override {
      std::vector<Outcome> outcomes = TRY(Simulated::Measure(space, proposals, options));
      for (Outcome& outcome : outcomes) {
        if (!std::isfinite(outcome.cost)) outcome.times = {outcome.cost = 1};  // what the draft score would never try
        constexpr int kStatuses = static_cast<int>(TrialStatus::kInfrastructure) + 1;
        int n = asked++ % (2 * kStatuses);  // every second one is as it was
        if (n % 2 == 1 && n / 2 > 0) outcome = {.status = static_cast<TrialStatus>(n / 2), .error = "injected"};
        ++statuses[outcome.status];
      }
      return outcomes;
    }
    int asked = 0;
    std::map<TrialStatus, int> statuses;
  };
  std::vector<TuneTask> tasks = Tasks();
  auto store = NewMemoryStore();
  Mixed device;
  TuneOptions options{
      .trials = 64, .seed = 1, .search = SearchKind::kRandom, .run = "r", .confirm = false, .lock_host = false};
  auto expect_exact = [&](const TuneReport& report) {
    EXPECT_EQ(report.records, device.asked);
    std::map<TrialStatus, int> reported, stored;
    int trials = 0, records = 0;
    for (const TaskReport& task : report.tasks) {
      int failures = 0;
      for (const auto& [status, count] : task.failures) reported[status] += count, failures += count;
      reported[TrialStatus::kOk] += task.records - failures;
      records += task.records;
      trials += task.trials;
    }
    EXPECT_EQ(records, report.records);
    EXPECT_EQ(trials, report.trials);
    int executed = 0;
    RecordPage page = store->Scan({.run = "r"}, 0, 1000).value();
    for (const Record& record : page.records) {
      ++stored[record.status];
      executed += WasExecuted(record.status);
    }
    EXPECT_EQ(executed, report.trials);
    EXPECT_EQ(reported, device.statuses);
    EXPECT_EQ(stored, device.statuses);
  };
  std::atomic<bool> stop = false;
  auto first = Tune(
      tasks, TestTarget(), options, *store, device,
      [&](const TuneReport& report, const TaskReport&) { stop = report.records >= 40; }, &stop);
  ASSERT_TRUE(first.ok()) << first.error().Text();
  ASSERT_TRUE(first->interrupted);
  expect_exact(*first);

  // Two of a step language that is not known any more.
  Record old = store->Scan({.run = "r"}, 0, 1).value().records[0];
  old.versions.step_language = 0;
  for (TrialStatus status : {TrialStatus::kOk, TrialStatus::kRunCrashed}) {
    old.id = NewRecordId();
    old.status = status;
    old.cost = old.verified = status == TrialStatus::kOk;
    old.error = status == TrialStatus::kOk ? "" : "injected";
    ASSERT_TRUE(store->Append(std::vector<Record>{old}).ok());
    ++device.asked;
    ++device.statuses[status];
  }
  auto second = Tune(tasks, TestTarget(), options, *store, device);
  ASSERT_TRUE(second.ok()) << second.error().Text();
  EXPECT_EQ(second->trials, 64);
  expect_exact(*second);
  EXPECT_EQ(device.statuses.size(), static_cast<size_t>(TrialStatus::kInfrastructure) + 1) << "not all were met";
}

TEST(Tune, ATinyBudgetStillReachesEveryTask) {
  std::vector<TuneTask> tasks = Tasks();
  auto store = NewMemoryStore();
  Simulated device;
  auto report = Tune(tasks, TestTarget(), {.trials = 2, .seed = 1, .run = "r", .lock_host = false}, *store, device);
  ASSERT_TRUE(report.ok());
  for (const TaskReport& task : report->tasks) EXPECT_GE(task.records, 1);
}

}  // namespace
}  // namespace autotune
