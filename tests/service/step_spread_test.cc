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
  StepSpread Spread() {
    StepSpread spread(Of(exact_));
    for (int i = 0; i < kStepSamples; ++i) spread.Add(Of(Moved(1)));
    return spread;
  }

 private:
  const double spread_;
  Rng rng_{3};
  std::vector<float> exact_;
};

TEST(StepSpread, AllowsWhatStepsDo) {
  Steps steps(0.1);
  const StepSpread spread = steps.Spread();
  const auto same = spread.Judge(Of(steps.Moved(1)), {}), twice = spread.Judge(Of(steps.Moved(2)), {});
  EXPECT_TRUE(same->ok && twice->ok);
  EXPECT_NEAR(same->typical, 1, 0.2);
  EXPECT_NEAR(twice->typical, 2, 0.4);
}

TEST(StepSpread, RefusesWhatStepsCannotDo) {
  Steps steps(0.1);
  const StepSpread spread = steps.Spread();
  const auto far = spread.Judge(Of(steps.Moved(4)), {});
  EXPECT_FALSE(far->ok) << "all differ by four times as much";
  std::vector<float> one = steps.Moved(1);
  one[7] += 5;
  EXPECT_FALSE(spread.Judge(Of(one), {})->ok) << "one element";
  std::vector<float> still = steps.Moved(1);
  still[kCount - 1] += 0.1f;
  const auto beside = spread.Judge(Of(still), {});
  EXPECT_FALSE(beside->ok) << "no step moves this element";
  EXPECT_EQ(beside->comparison.worst_index, kCount - 1);
  std::vector<float> nan = steps.Moved(1);
  nan[3] = NAN;
  EXPECT_FALSE(spread.Judge(Of(nan), {})->ok);
  EXPECT_FALSE(spread.Judge(Of({1, 2}), {}).ok()) << "another shape";
}

TEST(StepSpread, IntegersHaveNoOtherTolerance) {
  const auto of = [](std::vector<int8_t> numbers) {
    return Tensor::FromBytes({static_cast<int64_t>(numbers.size())}, {kDLInt, 8, 1},
                             {reinterpret_cast<const char*>(numbers.data()), numbers.size()})
        .value();
  };
  StepSpread spread(of({100, 50}));
  for (int i = 0; i < kStepSamples; ++i) spread.Add(of({static_cast<int8_t>(100 + i % 2), 50}));
  EXPECT_TRUE(spread.Judge(of({101, 50}), {})->ok);
  EXPECT_FALSE(spread.Judge(of({100, 51}), {})->ok);
}

TEST(StepSpread, FactorsAreNearOne) {
  const Tensor factors = DrawStepFactors(100, 5), others = DrawStepFactors(100, 6);
  int differ = 0;
  for (int i = 0; i < 100; ++i) {
    EXPECT_LE(std::abs(factors.Data<float>()[i] - 1.0), (kMostStepRoundoffs + 1) * 0x1p-24);
    differ += factors.Data<float>()[i] != others.Data<float>()[i];
  }
  EXPECT_GT(differ, 50);
}

}  // namespace
}  // namespace autotune
