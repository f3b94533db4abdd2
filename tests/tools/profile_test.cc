// The conclusions that `autotune bench --profile` and `autotune doctor` draw from their measurements.
#include "tools/autotune/profile.h"

#include <gmock/gmock.h>

#include <limits>

namespace autotune::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kMicro = 1e-6;

TEST(ProfileBalance, HoldsWhereTheSumIsTheNetwork) {
  ProfileBalance balance = BalanceOf({.network = {10, 10, 11}, .kernels = {{4, 4, 4}, {6.2, 6.2, 7}}}, 0);
  EXPECT_TRUE(balance.Holds());
  EXPECT_DOUBLE_EQ(balance.network, 10);
  EXPECT_DOUBLE_EQ(balance.kernels, 10.2);
  EXPECT_EQ(balance.explanation, "they agree within 2.0 %");
}

TEST(ProfileBalance, OfANetworkWithoutKernelsIsNoDisagreement) {
  EXPECT_EQ(BalanceOf({.network = {kMicro}, .kernels = {}}, 0).explanation,
            "the network has no kernels, only reshapes");
}

TEST(ProfileBalance, BlamesTheClockForManyShortKernels) {
  ProfileSamples samples{.network = std::vector<double>(9, kMicro), .kernels = {}};
  samples.kernels.assign(10, std::vector<double>(9, 0.13 * kMicro));
  ProfileBalance balance = BalanceOf(samples, 0.03 * kMicro);
  EXPECT_FALSE(balance.Holds());
  EXPECT_THAT(balance.explanation, AllOf(HasSubstr("disagree by 30.0 %"), HasSubstr("reads the clock 10 times")));
  EXPECT_THAT(BalanceOf(samples, 0.001 * kMicro).explanation, AllOf(Not(HasSubstr("clock")), HasSubstr("disturbed")));
}

TEST(ProfileBalance, TellsRunsThatWereSlowForOtherKernelsFromOtherRuns) {
  // In each run, another kernel is slow and makes the run slow. No kernel's median shows that.
  ProfileBalance moving = BalanceOf({.network = {12, 12, 12}, .kernels = {{6, 3, 3}, {3, 6, 3}, {3, 3, 6}}}, 0);
  EXPECT_FALSE(moving.Holds());
  EXPECT_THAT(moving.explanation, HasSubstr("they agree within each run"));
  ProfileBalance apart = BalanceOf({.network = {6, 6, 6}, .kernels = {{9, 9, 9}}}, 0);
  EXPECT_FALSE(apart.Holds());
  EXPECT_THAT(apart.explanation, AllOf(HasSubstr("disagree by 50.0 %"), HasSubstr("measure again")));
}

Roofline Machine() {
  constexpr double kForever = std::numeric_limits<double>::infinity();
  return {.flops_per_second = 100e9, .copying = {{"L1", 1e3, 100e9}, {"L2", 1e6, 50e9}, {"memory", kForever, 10e9}}};
}

TEST(Roofline, IsTheSlowerOfArithmeticAndData) {
  Roof sums = Machine().Of(/*flops=*/1e6, /*bytes=*/1e5);
  EXPECT_DOUBLE_EQ(sums.seconds, 10 * kMicro);
  EXPECT_EQ(sums.bound, "arithmetic");
  Roof near = Machine().Of(1e3, 1e6), far = Machine().Of(1e3, 2e6);
  EXPECT_DOUBLE_EQ(near.seconds, 20 * kMicro);
  EXPECT_EQ(near.bound, "L2") << "L2 is the nearest level that holds the data";
  EXPECT_DOUBLE_EQ(far.seconds, 200 * kMicro);
  EXPECT_EQ(far.bound, "memory");
}

TEST(ProfileTable, SaysWhatItsNumbersMean) {
  std::vector<ProfileRow> rows(2);
  rows[0] = {.node = "/layer1/Conv", .task = "1f3a22c9", .label = "conv2d_relu [1,8,8,4]", .winograd = true};
  rows[0].seconds = 20 * kMicro, rows[0].flops = 1e6, rows[0].bytes = 4e3, rows[0].roof = {10 * kMicro, "arithmetic"};
  rows[1] = {.node = "reshape", .seconds = 5 * kMicro};
  std::string table = ProfileTable(rows, {25 * kMicro, 25 * kMicro, "they agree within 0.1 %"}, Machine(), 2);
  EXPECT_THAT(table,
              HasSubstr("20.0   80.0     50.0w      0.2    50.0  arithmetic  1f3a22c9  /layer1/Conv: conv2d_relu"));
  EXPECT_THAT(table, HasSubstr("25.0        all kernels; the network takes 25.0 us: they agree within 0.1 %"));
  EXPECT_THAT(table, AllOf(HasSubstr("on 2 threads: 100.0 GFLOPS"), HasSubstr("10 GB/s in memory")));
  EXPECT_THAT(table, HasSubstr("w: Winograd's algorithm"));
  rows[0].winograd = false;
  EXPECT_THAT(ProfileTable(rows, {}, Machine(), 1), AllOf(Not(HasSubstr("Winograd")), HasSubstr("1 thread:")));
}

TEST(Noise, IsToldInWordsThatOneCanUse) {
  EXPECT_EQ(NoiseText({.median = 0.012, .worst = 0.4}),
            "repeats of one loop vary by 1.2 % (median), the worst took 1.4 times as long");
  EXPECT_EQ(
      NoiseText({.median = 0.08, .worst = 2527.75}),
      "this machine is busy: repeats of one loop vary by 8.0 % (median), the worst took 2529 times as long; tuning "
      "would choose schedules by chance");
}

// The loop for the measurement of noise computes a constant, and the compiler must not remove the loop. Without it,
// repeats took no time, and an interrupt seemed 1,000,000 times as long as a repeat.
TEST(Noise, IsMeasuredOnALoopThatRuns) {
  constexpr double kNoCpuIsAsFast = 1e-5;  // seconds for 200,000 dependent operations
  EXPECT_GT(MeasureNoise().fastest, kNoCpuIsAsFast);
}

}  // namespace
}  // namespace autotune::tools
