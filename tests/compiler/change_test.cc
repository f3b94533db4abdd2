// The rule of the final choice, on intervals that the tests make up.
#include "compiler/change.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/rng.h"

namespace autotune {
namespace {

// An interval of speed-ups, as a run prints it. The rule takes ratios of times.
MedianInterval Speedup(double low, double median, double high) { return {1 / high, 1 / median, 1 / low}; }

void ExpectVerdict(const std::vector<MedianInterval>& ratios, ChangeKind kind, size_t at) {
  const ChangeVerdict verdict = JudgeChange(ratios);
  EXPECT_EQ(verdict.kind, kind);
  EXPECT_EQ(verdict.at, at);
}

TEST(JudgeChange, ASureGainIsTakenIfTheOtherMedianShowsNoLoss) {
  const MedianInterval gain = Speedup(1.068, 1.076, 1.085);
  ExpectVerdict({Speedup(0.918, 1.010, 1.105), gain}, ChangeKind::kGain, 1);
  ExpectVerdict({gain, Speedup(0.918, 1.010, 1.105)}, ChangeKind::kGain, 0);
  ExpectVerdict({gain}, ChangeKind::kGain, 0);
  ExpectVerdict({gain, Speedup(1.2, 1.3, 1.4)}, ChangeKind::kGain, 1);
}

TEST(JudgeChange, AMedianThatShowsALossLeavesItUndecided) {
  ExpectVerdict({Speedup(0.918, 0.980, 1.105), Speedup(1.068, 1.076, 1.085)}, ChangeKind::kUndecided, 0);
  ExpectVerdict({Speedup(1.068, 1.076, 1.085), Speedup(0.918, 0.980, 1.105)}, ChangeKind::kUndecided, 1);
}

// Half of all medians of equally fast networks lie below 1. Such chance must not cost a gain where the interval is too
// narrow for a loss that counts. In a wide one a loss of any size counts.
TEST(JudgeChange, AnEvenIntervalIsNoLossWhateverItsMedian) {
  const MedianInterval gain = Speedup(1.068, 1.076, 1.085);
  ExpectVerdict({Speedup(0.995, 0.999, 1.004), gain}, ChangeKind::kGain, 1);
  ExpectVerdict({Speedup(0.918, 0.999, 1.105), gain}, ChangeKind::kUndecided, 0);
  ExpectVerdict({Speedup(0.918, 1, 1.105), gain}, ChangeKind::kGain, 1);
}

TEST(JudgeChange, ASureLossRefusesAnyGain) {
  ExpectVerdict({Speedup(1.2, 1.3, 1.4), Speedup(0.990, 0.998, 0.999)}, ChangeKind::kLoss, 1);
  ExpectVerdict({Speedup(0.7, 0.8, 0.9), Speedup(0.6, 0.7, 0.8)}, ChangeKind::kLoss, 1);
}

TEST(JudgeChange, WithoutASureGainNothingIsTaken) {
  ExpectVerdict({Speedup(0.997, 1, 1.003), Speedup(0.996, 1, 1.004)}, ChangeKind::kEven, 0);
  ExpectVerdict({Speedup(0.997, 1, 1.003), Speedup(0.9, 1.05, 1.1)}, ChangeKind::kUndecided, 1);
  ExpectVerdict({Speedup(0.9, 1.05, 1.1), Speedup(0.8, 1.1, 1.2)}, ChangeKind::kUndecided, 1);
  ExpectVerdict({}, ChangeKind::kEven, 0);
}

TEST(JudgeChange, OnlyAWideIntervalThatIncludesOneIsUndecided) {
  EXPECT_TRUE(IsUndecided(Speedup(0.918, 1, 1.105)));
  EXPECT_FALSE(IsUndecided(Speedup(0.996, 1, 1.004)));
  EXPECT_FALSE(IsUndecided(Speedup(1.01, 1.2, 1.4)));
  EXPECT_FALSE(IsUndecided(Speedup(0.7, 0.8, 0.99)));
}

// The demo's case: at one number of threads a sure gain, at the other one an interval from 0.918 to 1.105.
TEST(JudgeChange, TheMedianOfAWideIntervalDecidesAboutASureGain) {
  for (int median = 918; median <= 1105; ++median) {
    const std::vector<MedianInterval> ratios = {Speedup(0.918, median / 1000.0, 1.105), Speedup(1.068, 1.076, 1.085)};
    EXPECT_TRUE(IsUndecided(ratios[0])) << "so it is measured on";
    if (median < 1000) {
      ExpectVerdict(ratios, ChangeKind::kUndecided, 0);
    } else {
      ExpectVerdict(ratios, ChangeKind::kGain, 1);
    }
  }
}

// Random intervals around 1, some narrow, and the rule once more in the words of the README.
TEST(JudgeChange, RandomIntervalsNeverLoseASureGainAndNeverTakeALoss) {
  Rng rng(7);
  auto random = [&](double most) { return most * static_cast<double>(rng.Below(10'001)) / 10'000; };
  int taken = 0, undecided = 0, lost = 0, even = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<MedianInterval> ratios(1 + rng.Below(2));
    for (MedianInterval& ratio : ratios) {
      const double width = rng.Below(2) ? 0.004 : 0.2, median = 0.95 + random(0.1);
      ratio = {median - random(width), median, median + random(width)};
      if (rng.Below(8) == 0) ratio = {1, 1, 1 + random(width)};  // bounds and medians of exactly 1
    }
    const bool gains = std::any_of(ratios.begin(), ratios.end(), [](const auto& r) { return r.high < 1; });
    const bool loses = std::any_of(ratios.begin(), ratios.end(), [](const auto& r) {
      const bool unsure = r.low <= 1 && r.high >= 1 && r.high - r.low > 0.01;
      return r.low > 1 || (unsure && r.median > 1);
    });
    const ChangeVerdict verdict = JudgeChange(ratios);
    EXPECT_EQ(verdict.kind == ChangeKind::kGain, gains && !loses);
    const MedianInterval& at = ratios[verdict.at];
    switch (verdict.kind) {
      case ChangeKind::kGain:
        EXPECT_LT(at.high, 1);
        ++taken;
        break;
      case ChangeKind::kLoss:
        EXPECT_GT(at.low, 1);
        ++lost;
        break;
      case ChangeKind::kUndecided:
        EXPECT_TRUE(IsUndecided(at));
        ++undecided;
        break;
      case ChangeKind::kEven:
        for (const MedianInterval& r : ratios) EXPECT_TRUE(r.low > 0.99 && r.high < 1.01) << "within 1 %";
        ++even;
        break;
    }
  }
  for (int count : {taken, lost, undecided, even}) EXPECT_GT(count, 50);
}

}  // namespace
}  // namespace autotune
