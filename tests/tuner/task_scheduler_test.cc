// Tests of the task scheduler and of the machine's state.
#include "tuner/task_scheduler.h"

#include <gtest/gtest.h>

#include "tests/tuner/simulated.h"
#include "tuner/machine_state.h"

namespace autotune {
namespace {

TEST(TaskScheduler, GainGrowsWithTheShareAndWithWhatTheSearchStillFinds) {
  TaskProgress task{.seconds = 1e-3, .attempts = 32, .recent = 16};
  double plain = ExpectedGain(task, 1, 0);
  EXPECT_DOUBLE_EQ(ExpectedGain(task, 3, 0), 3 * plain);
  EXPECT_LT(ExpectedGain(task, 1, 8), plain) << "trials that are under way count";
  TaskProgress improving = task, old = task, near = task;
  improving.improvement = 0.1;
  EXPECT_GT(ExpectedGain(improving, 1, 0), plain);
  old.attempts = 64;
  old.recent = 32;
  EXPECT_LT(ExpectedGain(old, 1, 0), plain);
  near.bound = 0.9e-3;
  EXPECT_DOUBLE_EQ(ExpectedGain(near, 1, 0), 0.1 * plain) << "the gain is at most the distance to the bound";
}

TEST(TaskScheduler, StopsAtTheRoofline) {
  EXPECT_TRUE(IsAtRoofline({.seconds = 1.02e-3, .bound = 1e-3}));
  EXPECT_FALSE(IsAtRoofline({.seconds = 1.1e-3, .bound = 1e-3}));
  EXPECT_FALSE(IsAtRoofline({.seconds = 1e-3, .bound = 0})) << "without a bound no task is at the roofline";
}

TEST(TaskScheduler, TheBoundIsThatOfTheArithmetic) {
  TuneTask task = test::TwoTasks()[1];  // dense 16 x 96 x 64
  task.flops = 1e6;
  EXPECT_DOUBLE_EQ(RooflineSeconds(task, 0), 0);
  EXPECT_DOUBLE_EQ(RooflineSeconds(task, 1e9), 1e-3);
  EXPECT_DOUBLE_EQ(EstimatedSeconds(task, 1e9), 1e-3);
  task.alternatives.push_back({"winograd4", task.alternatives[0].func});
  EXPECT_DOUBLE_EQ(RooflineSeconds(task, 1e9), 0.25e-3) << "Winograd multiplies less often";
  EXPECT_DOUBLE_EQ(FewestOperations(task, task.alternatives[0]), 1e6);
  EXPECT_DOUBLE_EQ(FewestOperations(task, task.alternatives[1]), 0.25e6);
  task.alternatives.push_back({"skip_padding", task.alternatives[0].func});
  EXPECT_DOUBLE_EQ(RooflineSeconds(task, 1e9), 0) << "how much it skips is unknown";
}

TEST(TaskScheduler, AFasterScheduleDisprovesThePeak) {
  EXPECT_DOUBLE_EQ(BelievedPeak(1e9, 0), 1e9);
  EXPECT_DOUBLE_EQ(BelievedPeak(1e9, 1.02e9), 1e9) << "2 % is noise";
  EXPECT_DOUBLE_EQ(BelievedPeak(1e9, 1.04e9), 0);
  EXPECT_DOUBLE_EQ(BelievedPeak(0, 1e9), 0) << "an unknown peak must stay unknown";
}

// A device that is twice as slow as another one is in its usual state, and stays so when the devices take turns.
TEST(MachineState, EachDeviceHasAUsualState) {
  MachineState machine;
  for (int i = 0; i < 3; ++i) {
    machine.Add({1, "fast"});
    machine.Add({2, "slow"});
  }
  EXPECT_EQ(machine.Usual("fast"), 1);
  EXPECT_EQ(machine.Usual("slow"), 2);
  EXPECT_TRUE(machine.IsUsual({2, "slow"}));
  EXPECT_FALSE(machine.IsUsual({2, "fast"}));
  EXPECT_TRUE(machine.IsUsual({9, "new"})) << "the first state of a device is usual";
  EXPECT_EQ(machine.Comparable(4, {2, "slow"}), 4);
  EXPECT_EQ(machine.Comparable(4, {2, "fast"}), 2);
  EXPECT_EQ(machine.Name({3, "slow"}), "50 % slower");
}

TEST(MachineState, ScalesTimesOfAnotherStateOnly) {
  MachineState machine;
  EXPECT_TRUE(machine.IsUsual(1)) << "the first state must be usual";
  for (double reference : {1.0, 1.02, 0.0, 0.98}) machine.Add(reference);
  EXPECT_DOUBLE_EQ(machine.Usual(), 1);
  EXPECT_DOUBLE_EQ(machine.Comparable(5, 1.05), 5) << "a difference of 5 % is noise";
  EXPECT_DOUBLE_EQ(machine.Comparable(5, 0), 5) << "without a reference the time stays as it is";
  EXPECT_DOUBLE_EQ(machine.Comparable(2.62, 1.31), 2);
  EXPECT_DOUBLE_EQ(machine.Comparable(0.8, 0.8), 1);
  EXPECT_EQ(machine.Name(1.31), "31 % slower");
  EXPECT_EQ(machine.Name(0.8), "25 % faster");
  EXPECT_EQ(machine.Name(1.05), "usual");
}

}  // namespace
}  // namespace autotune
