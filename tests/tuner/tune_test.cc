// The whole loop against a simulated device: a pure function of the candidate, with injected failures.
#include "tuner/tune.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "records/memory_store.h"
#include "schedule/trace.h"
#include "tests/tuner/programs.h"

namespace autotune {
namespace {

using testing::ConvBiasRelu;
using testing::Dense;
using testing::MakeTask;
using testing::TestTarget;

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
        outcome.times = {outcome.cost};
      }
      outcomes.push_back(outcome);
    }
    return outcomes;
  }
  bool all_fail = false;
  std::vector<uint64_t> order;
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
  EXPECT_EQ(*store->Count({.run = "r"}), report->records);
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
  TuneOptions options{.trials = 64, .seed = 1, .run = "r", .lock_host = false};
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
