#include "service/step_spread.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/rng.h"

namespace autotune {
namespace {

constexpr int64_t kCount = 500;

Tensor Of(const std::vector<float>& numbers) {
  return Tensor::FromBytes({static_cast<int64_t>(numbers.size())}, {kDLFloat, 32, 1},
                           {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)})
      .value();
}

// Numbers that steps spread by `spread`, beside others that they leave alone.
class Steps {
 public:
  explicit Steps(double spread) : spread_(spread), exact_(kCount) {
    for (float& x : exact_) x = static_cast<float>(1 + rng_.Uniform());
  }
  std::vector<float> Moved(double times) {
    std::vector<float> moved = exact_;
    for (size_t i = 0; i < moved.size() / 2; ++i) moved[i] += static_cast<float>(times * spread_ * rng_.Normal());
    return moved;
  }
  // Returns the judgement on these numbers after samples of steps.
  StepSpread::Judgement Judge(const std::vector<float>& expected) {
    StepSpread spread(Of(exact_), Of(expected), {});
    for (int i = 0; i < kStepSamples; ++i) spread.Add(Of(Moved(1)));
    return spread.Judge();
  }

 private:
  const double spread_;
  Rng rng_{3};
  std::vector<float> exact_;
};

TEST(StepSpread, AllowsWhatStepsDo) {
  Steps steps(0.1);
  const auto same = steps.Judge(steps.Moved(1)), more = steps.Judge(steps.Moved(1.3));
  EXPECT_TRUE(same.ok && more.ok);
  EXPECT_NEAR(same.times, 0.9, 0.2);
  EXPECT_NEAR(more.times, 1.2, 0.25);
  EXPECT_NEAR(same.share, 0.1 / 1.5, 0.01) << "of those that move";
}

TEST(StepSpread, RefusesWhatStepsCannotDo) {
  Steps steps(0.1);
  EXPECT_FALSE(steps.Judge(steps.Moved(2)).ok) << "all differ by twice as much";
  std::vector<float> one = steps.Moved(1);
  one[7] += 5;
  EXPECT_FALSE(steps.Judge(one).ok) << "one element";
  std::vector<float> still = steps.Moved(1);
  still[kCount - 1] += 0.1f;
  const auto beside = steps.Judge(still);
  EXPECT_FALSE(beside.ok) << "no step moves this element";
  EXPECT_EQ(beside.comparison.worst_index, kCount - 1);
  std::vector<float> nan = steps.Moved(1);
  nan[3] = NAN;
  EXPECT_FALSE(steps.Judge(nan).ok);
}

// One step near its tie moves all elements at once, in a few of the samples.
TEST(StepSpread, AllowsWhatOneStepDoes) {
  const std::vector<float> low = {1, 2, 3}, high = {1.1f, 2.3f, 2.8f}, twice = {1.2f, 2.6f, 2.6f};
  const auto judge = [&](const std::vector<float>& expected) {
    StepSpread spread(Of(low), Of(expected), {});
    for (int i = 0; i < kStepSamples; ++i) spread.Add(Of(i == 5 ? high : low));
    return spread.Judge();
  };
  EXPECT_TRUE(judge(high).ok);
  EXPECT_FALSE(judge(twice).ok);
}

// A few elements differ by many times their spread, by steps that no sample takes.
TEST(StepSpread, AllowsFewRareSteps) {
  constexpr size_t kMany = 4096, kRare = static_cast<size_t>(kMany * StepSpread::kMostRare);
  constexpr float kSpread = 0.004f;
  const std::vector<float> still(kMany, 1.5f);
  const auto judge = [&](size_t count, float spreads) {
    std::vector<float> expected(kMany, 1.5f);
    for (size_t i = 0; i < count; ++i) expected[100 + i] += spreads * kSpread;
    StepSpread spread(Of(still), Of(expected), {});
    for (int sample = 0; sample < kStepSamples; ++sample) {
      std::vector<float> moved = still;
      // The first elements spread far, so that all together are no farther than a sample.
      for (size_t i = 0; i < kMany; ++i) moved[i] += (sample % 2 ? 1 : -1) * (i < 100 ? 0.1f : kSpread);
      spread.Add(Of(moved));
    }
    return spread.Judge().ok;
  };
  EXPECT_TRUE(judge(kRare, 20));
  EXPECT_FALSE(judge(kRare + 1, 20)) << "not rare";
  EXPECT_FALSE(judge(1, 40)) << "too far for its own spread, though others spread farther";
}

// Elements within the tolerance are no rare steps, however little the samples move them.
TEST(StepSpread, WhatTheToleranceAllowsIsNotRare) {
  constexpr size_t kMany = 4096, kFar = 200;
  const std::vector<float> still(kMany, 1.5f);
  std::vector<float> expected(kMany, 1.5f + 0x1p-18f);
  expected[kFar] += 0.08f;
  StepSpread spread(Of(still), Of(expected), {});
  for (int sample = 0; sample < kStepSamples; ++sample) {
    std::vector<float> moved = still;
    for (size_t i = 0; i < kMany; ++i) moved[i] += i < 100 ? 0.1f : i == kFar ? 0.004f : 0x1p-22f;
    spread.Add(Of(moved));
  }
  EXPECT_TRUE(spread.Judge().ok);
}

TEST(StepSpread, ChangesAsLargeAsTheOutputSayNothing) {
  Steps steps(1);
  EXPECT_FALSE(steps.Judge(steps.Moved(1)).ok);
}

// Neither beside one large element, nor with a tolerance of 0.
TEST(StepSpread, OtherElementsAndTolerancesExcuseNothing) {
  const std::vector<float> low = {1, 1, 1, 1e9f}, high = {1.9f, 1.9f, 1.9f, 1e9f}, some = {1.1f, 1.1f, 1.1f, 1e9f};
  const auto judge = [&](const std::vector<float>& moved, const std::vector<float>& expected, const Tolerance& t) {
    StepSpread spread(Of(low), Of(expected), t);
    for (int i = 0; i < kStepSamples; ++i) spread.Add(Of(moved));
    return spread.Judge();
  };
  EXPECT_FALSE(judge(high, high, {}).ok);
  for (const Tolerance& t : {Tolerance(), Tolerance{.rtol = 0, .atol = 0}}) {
    EXPECT_TRUE(judge(some, some, t).ok);
    EXPECT_FALSE(judge(some, {1.2f, 1.2f, 1.2f, 1e9f}, t).ok) << "twice as far";
  }
}

template <class T>
StepSpread::Judgement OfIntegers(std::vector<T> expected) {
  const auto of = [](const std::vector<T>& numbers) {
    return Tensor::FromBytes({static_cast<int64_t>(numbers.size())}, {kDLInt, 8 * sizeof(T), 1},
                             {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)})
        .value();
  };
  StepSpread spread(of({100, 50}), of(expected), {});
  for (int i = 0; i < kStepSamples; ++i) spread.Add(of({static_cast<T>(100 + i % 2), 50}));
  return spread.Judge();
}

TEST(StepSpread, IntegersHaveNoOtherTolerance) {
  EXPECT_TRUE(OfIntegers<int8_t>({101, 50}).ok);
  EXPECT_FALSE(OfIntegers<int8_t>({100, 51}).ok);
  EXPECT_FALSE(OfIntegers<int64_t>({101, 50}).ok) << "a place";
}

TEST(StepSpread, MovesAreSmallAndDiffer) {
  const Tensor moves = DrawStepMoves(100, 5), others = DrawStepMoves(100, 6);
  int differ = 0;
  for (int i = 0; i < 100; ++i) {
    EXPECT_LE(std::abs(moves.Data<float>()[i]), kLargestMove);
    differ += moves.Data<float>()[i] != others.Data<float>()[i];
  }
  EXPECT_GT(differ, 50);
}

}  // namespace
}  // namespace autotune
