#include "support/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/rng.h"

namespace autotune {
namespace {

TEST(Statistics, MedianOfOddAndEvenNumbersOfValues) {
  EXPECT_EQ(Median({3}), 3);
  EXPECT_EQ(Median({5, 1, 3}), 3);
  EXPECT_EQ(Median({4, 1, 3, 2}), 2.5);
}

TEST(Statistics, FewValuesBoundNothing) {
  MedianInterval five = MedianWithInterval({1, 2, 3, 4, 5});
  EXPECT_EQ(five.median, 3);
  EXPECT_TRUE(std::isinf(five.low));
  EXPECT_TRUE(std::isinf(five.high));
  // All six lie on one side of the median with probability 2 / 2^6 = 3.1 %.
  MedianInterval six = MedianWithInterval({6, 1, 5, 2, 4, 3});
  EXPECT_EQ(six.low, 1);
  EXPECT_EQ(six.high, 6);
}

TEST(Statistics, RankCorrelationSeesOrderOnly) {
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 2, 3, 4}, {10, 100, 101, 1e9}), 1);
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 2, 3, 4}, {9, 7, 5, 1}), -1);
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 2, 3}, {1, 1, 1}), 0);
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 2, 3}, {1, 3, 2}), 0.5);
  EXPECT_NEAR(RankCorrelation({1, 1, 2}, {1, 2, 3}), std::sqrt(0.75), 1e-12) << "ties share the mean of their ranks";
}

// The ranks in tables of the sign test: 6 and 15 for n = 20, 40 and 61 for n = 100.
TEST(Statistics, RanksOfTheSignTest) {
  std::vector<double> values;
  for (int i = 1; i <= 20; ++i) values.push_back(i);
  MedianInterval twenty = MedianWithInterval(values);
  EXPECT_EQ(twenty.low, 6);
  EXPECT_EQ(twenty.high, 15);
  for (int i = 21; i <= 100; ++i) values.push_back(i);
  MedianInterval hundred = MedianWithInterval(values);
  EXPECT_EQ(hundred.low, 40);
  EXPECT_EQ(hundred.high, 61);
}

// Skewed values with a true median of 1. The interval contains it in at least 95 % of the draws, but not always.
TEST(Statistics, IntervalHoldsTheMedianInNineteenOfTwentyDraws) {
  Rng rng(1);
  int held = 0;
  constexpr int kDraws = 2000;
  for (int draw = 0; draw < kDraws; ++draw) {
    std::vector<double> values;
    for (int i = 0; i < 31; ++i) {
      double u = static_cast<double>(rng.Below(1 << 20)) / (1 << 20);
      values.push_back(u < 0.5 ? 0.5 + u : std::pow(2 * u, 5));
    }
    MedianInterval interval = MedianWithInterval(values);
    held += interval.low <= 1 && 1 <= interval.high;
  }
  EXPECT_GE(held, 0.94 * kDraws);
  EXPECT_LT(held, kDraws);
}

}  // namespace
}  // namespace autotune
