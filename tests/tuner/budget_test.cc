// Tests where the trials of a run go: not to tasks at their roofline, and not to tasks that only fail.
#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "records/memory_store.h"
#include "tests/tuner/simulated.h"
#include "tuner/tune.h"

namespace autotune {
namespace {

using test::Scripted;
using test::TestTarget;

constexpr double kPeak = 1e9;  // the simulated machine's peak in operations per second

// Returns the convolution and the matrix product, with one operation count.
std::vector<TuneTask> TasksWithFlops() {
  std::vector<TuneTask> tasks = test::TwoTasks();
  for (TuneTask& task : tasks) task.flops = 1e6;
  return tasks;
}

// Makes a device on which every schedule of the convolution runs at the peak, and every schedule of the matrix product
// at the share `dense` of it.
Scripted DeviceWithPeak(double dense) {
  return Scripted([dense](Scripted&, const MeasureItem& item, const std::string&) {
    const TuneTask& task = *item.space->task;
    double seconds = task.flops / (task.label == "dense" ? dense * kPeak : kPeak);
    return Outcome{.status = TrialStatus::kOk, .times = {seconds}, .cost = seconds, .verified = item.check};
  });
}

TuneOptions OptionsWithPeak(double peak_flops) {
  return {.trials = 24,
          .seed = 1,
          .search = SearchKind::kRandom,
          .run = "r",
          .peak_flops = peak_flops,
          .confirm = false,
          .lock_host = false};
}

TEST(Budget, TheLimitOfTimeEndsTheSearch) {
  for (double time_budget : {0.0, 1e-3, 1e6}) {
    std::vector<TuneTask> tasks = TasksWithFlops();
    auto store = NewMemoryStore();
    Scripted device = DeviceWithPeak(0.5);
    TuneOptions options = OptionsWithPeak(0);
    options.trials = 40;
    options.time_budget = time_budget;
    auto report = Tune(tasks, TestTarget(), options, *store, device);
    ASSERT_TRUE(report.ok()) << report.error().Text();
    EXPECT_EQ(report->out_of_time, time_budget == 1e-3);
    EXPECT_EQ(report->trials == 40, time_budget != 1e-3) << report->trials;
    EXPECT_FALSE(report->interrupted);
  }
}

TEST(Budget, ATaskAtItsRooflineGetsNoMoreTrials) {
  // A peak that is 2 % too low differs from the true one by noise.
  for (double peak_flops : {kPeak, 0.98 * kPeak, 0.0}) {
    std::vector<TuneTask> tasks = TasksWithFlops();
    auto store = NewMemoryStore();
    Scripted device = DeviceWithPeak(0.72);
    auto report = Tune(tasks, TestTarget(), OptionsWithPeak(peak_flops), *store, device);
    ASSERT_TRUE(report.ok()) << report.error().Text();
    EXPECT_EQ(report->trials, 24);
    EXPECT_EQ(report->tasks[0].at_roofline, peak_flops > 0);
    EXPECT_EQ(report->tasks[0].trials == 1, peak_flops > 0);
    EXPECT_FALSE(report->tasks[1].at_roofline);
    EXPECT_GT(report->tasks[1].trials, 1);
  }
}

TEST(Budget, ARunEndsOnceAllTasksAreAtTheirRoofline) {
  std::vector<TuneTask> tasks = TasksWithFlops();
  auto store = NewMemoryStore();
  Scripted device = DeviceWithPeak(1);
  auto report = Tune(tasks, TestTarget(), OptionsWithPeak(kPeak), *store, device);
  ASSERT_TRUE(report.ok()) << report.error().Text();
  EXPECT_EQ(report->trials, 2);
  for (const TaskReport& task : report->tasks) EXPECT_TRUE(task.at_roofline);
}

// The peak was measured while the machine was 30 % slower. The matrix product's default schedule seems to run at the
// peak, but the convolution's exceeds it.
TEST(Budget, APeakThatAScheduleExceedsStopsNoTask) {
  std::vector<TuneTask> tasks = TasksWithFlops();
  auto store = NewMemoryStore();
  Scripted device = DeviceWithPeak(0.72);
  auto report = Tune(tasks, TestTarget(), OptionsWithPeak(0.7 * kPeak), *store, device);
  ASSERT_TRUE(report.ok()) << report.error().Text();
  EXPECT_EQ(report->trials, 24);
  for (const TaskReport& task : report->tasks) {
    EXPECT_FALSE(task.at_roofline);
    EXPECT_GT(task.trials, 1);
  }
}

// A resumed run decides by the peak that it began with, whatever a new measurement gives.
TEST(Budget, AResumedRunKeepsItsPeak) {
  for (double peak_flops : {kPeak, 0.7 * kPeak}) {
    std::vector<TuneTask> tasks = TasksWithFlops();
    auto store = NewMemoryStore();
    Scripted uninterrupted = DeviceWithPeak(0.72);
    ASSERT_TRUE(Tune(tasks, TestTarget(), OptionsWithPeak(peak_flops), *store, uninterrupted).ok());

    auto again = NewMemoryStore();
    Scripted device = DeviceWithPeak(0.72);
    std::atomic<bool> stop = false;
    auto first = Tune(
        tasks, TestTarget(), OptionsWithPeak(peak_flops), *again, device,
        [&](const TuneReport&, const TaskReport&) { stop = true; }, &stop);
    ASSERT_TRUE(first.ok() && first->interrupted);
    const double measured_anew = peak_flops == kPeak ? 0.7 * kPeak : kPeak;
    ASSERT_TRUE(Tune(tasks, TestTarget(), OptionsWithPeak(measured_anew), *again, device).ok());
    EXPECT_EQ(device.calls, uninterrupted.calls);
  }
}

// The most important task fails forever, or in the first two rounds. If it fails forever, all trials go to the other
// task, and the number of its records is limited: three rounds of failures of the farm, or three times the task's share
// of the trials, up to a batch more. If it works after two rounds, it is not given up.
TEST(Budget, ATaskThatOnlyFailsLeavesTheTrialsToTheOthers) {
  for (TrialStatus status : {TrialStatus::kRejected, TrialStatus::kInfrastructure}) {
    for (bool forever : {true, false}) {
      std::vector<TuneTask> tasks = test::TwoTasks();
      TuneTask& failing = tasks[1];
      failing.weight = 100000;
      auto store = NewMemoryStore();
      Scripted device([&](Scripted& d, const MeasureItem& item, const std::string& trace) {
        bool fails = item.space->task->label == failing.label && (forever || d.calls.size() <= 2);
        return fails ? test::Failure(status) : d.Good(item, trace);
      });
      TuneOptions options = OptionsWithPeak(0);
      options.batch = 8;
      auto report = Tune(tasks, TestTarget(), options, *store, device);
      ASSERT_TRUE(report.ok()) << report.error().Text();
      EXPECT_EQ(report->trials, options.trials);
      EXPECT_EQ(*store->Count({.run = "r"}), report->records);
      const TaskReport &other = report->tasks[0], &bad = report->tasks[1];
      EXPECT_EQ(other.trials == options.trials, forever);
      EXPECT_EQ(bad.trials == 0, forever);
      if (!forever) continue;
      const int share = options.trials / 2;
      EXPECT_LE(bad.records, status == TrialStatus::kInfrastructure ? 3 : 3 * share + options.batch);
      EXPECT_EQ(bad.failures, (std::map<TrialStatus, int>{{status, bad.records}}));
    }
  }
}

}  // namespace
}  // namespace autotune
