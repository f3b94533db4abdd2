// The path of mixtures: from the fastest one to f32, by the gain of each step.
#include "service/precision_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/rng.h"

namespace autotune {
namespace {

using testing::ElementsAre;

constexpr Precision kF32 = Precision::kF32, kBf16 = Precision::kBf16, kInt8 = Precision::kInt8;

TEST(PrecisionPath, TakesTheStepsWithTheMostGainFirst) {
  // The first product gains 5 times as much time by bytes as the second, at the same error.
  const std::vector<ProductCosts> costs = {{.seconds = {10, 10, 5}, .error = {0, 0.01, 0.1}},
                                           {.seconds = {2, 2, 1}, .error = {0, 0.01, 0.1}}};
  EXPECT_THAT(PrecisionPath(costs),
              ElementsAre(ElementsAre(kInt8, kInt8), ElementsAre(kInt8, kF32), ElementsAre(kF32, kF32)));
}

TEST(PrecisionPath, LeavesOutWhatIsNeverTheBest) {
  // bf16 is slower than f32, so it is not there; in the second product it is above the line from 8 bits to f32.
  const std::vector<ProductCosts> slow = {{.seconds = {3, 4, 1}, .error = {0, 0.01, 0.1}}};
  EXPECT_THAT(PrecisionPath(slow), ElementsAre(ElementsAre(kInt8), ElementsAre(kF32)));
  const std::vector<ProductCosts> above = {{.seconds = {3, 2.9, 1}, .error = {0, 0.09, 0.1}}};
  EXPECT_THAT(PrecisionPath(above), ElementsAre(ElementsAre(kInt8), ElementsAre(kF32)));
  const std::vector<ProductCosts> below = {{.seconds = {3, 1.1, 1}, .error = {0, 0.01, 0.1}}};
  EXPECT_THAT(PrecisionPath(below), ElementsAre(ElementsAre(kInt8), ElementsAre(kBf16), ElementsAre(kF32)));
  // f32 is the fastest: nothing else is tried.
  const std::vector<ProductCosts> fastest = {{.seconds = {1, 1, 1}, .error = {0, 0.01, 0.1}}};
  EXPECT_THAT(PrecisionPath(fastest), ElementsAre(ElementsAre(kF32)));
}

TEST(PrecisionPath, ChangesCostTime) {
  // Bytes are a little faster in the first and the third product. If each change takes longer than that, the network
  // stays f32 as a whole.
  std::vector<ProductCosts> costs = {{.seconds = {10, 20, 9}, .error = {0, 0.01, 0.1}},
                                     {.seconds = {10, 20, 30}, .error = {0, 0.01, 0.1}},
                                     {.seconds = {10, 20, 9}, .error = {0, 0.01, 0.1}}};
  EXPECT_THAT(PrecisionPath(costs).front(), ElementsAre(kInt8, kF32, kInt8));
  for (ProductCosts& product : costs) product.change_seconds = 2;
  EXPECT_THAT(PrecisionPath(costs), ElementsAre(ElementsAre(kF32, kF32, kF32)));
}

TEST(PrecisionPath, SpendsWhatIsLeftOfTheLimit) {
  // On the hull, the step from f32 to the first product in bytes is too far. One of the others fits.
  const std::vector<ProductCosts> costs = {{.seconds = {10, 10, 1}, .error = {0, 0, 0.2}},
                                           {.seconds = {4, 4, 3}, .error = {0, 0, 0.1}},
                                           {.seconds = {4, 4, 2.9}, .error = {0, 0, 0.1}}};
  EXPECT_THAT(FastestWithin(costs, 0.11), ElementsAre(kF32, kF32, kInt8));
  EXPECT_THAT(FastestWithin(costs, 0.05), ElementsAre(kF32, kF32, kF32));
  EXPECT_THAT(FastestWithin(costs, 0.21), ElementsAre(kInt8, kF32, kF32));
  EXPECT_THAT(FastestWithin(costs, 1), ElementsAre(kInt8, kInt8, kInt8));
}

// Against all mixtures of random products: within the limit, and a few per cent behind the best one at most, taken
// together.
TEST(PrecisionPath, IsNearlyTheFastestWithinALimit) {
  Rng rng(8);
  double ours = 0, best = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<ProductCosts> costs(5);
    for (ProductCosts& product : costs) {
      const double f32 = static_cast<double>(50 + rng.Below(100)), gain = static_cast<double>(2 + rng.Below(4));
      product = {{f32, 1.4 * f32 / gain, f32 / gain},
                 {0, static_cast<double>(1 + rng.Below(10)), static_cast<double>(10 + rng.Below(100))},
                 static_cast<double>(rng.Below(20))};
    }
    const double limit = static_cast<double>(1 + rng.Below(150));
    const Precisions found = FastestWithin(costs, limit);
    EXPECT_LE(PredictedError(costs, found), limit);
    ours += PredictedSeconds(costs, found);
    double least = 1e9;
    for (int mixture = 0; mixture < 243; ++mixture) {
      Precisions other;
      for (int rest = mixture, i = 0; i < 5; ++i, rest /= 3) other.push_back(static_cast<Precision>(rest % 3));
      if (PredictedError(costs, other) <= limit) least = std::min(least, PredictedSeconds(costs, other));
    }
    best += least;
  }
  EXPECT_LT(ours, 1.03 * best);
}

// Against all mixtures: no mixture is faster and at least as exact as one of the path.
TEST(PrecisionPath, NoMixtureIsBetterThanOneOfThePath) {
  Rng rng(7);
  const auto random = [&] { return static_cast<double>(1 + rng.Below(1000)); };
  for (int round = 0; round < 200; ++round) {
    std::vector<ProductCosts> costs(4);
    // In every other round, changes from product to product cost something.
    for (ProductCosts& product : costs)
      product = {{random(), random(), random()}, {0, random(), random()}, round % 2 ? random() / 4 : 0};
    const std::vector<Precisions> path = PrecisionPath(costs);
    EXPECT_EQ(PredictedError(costs, path.back()), 0);
    for (size_t i = 1; i < path.size(); ++i) {
      EXPECT_GT(PredictedSeconds(costs, path[i]), PredictedSeconds(costs, path[i - 1]));
      EXPECT_LT(PredictedError(costs, path[i]), PredictedError(costs, path[i - 1]));
    }
    for (int mixture = 0; mixture < 81; ++mixture) {
      Precisions other;
      for (int rest = mixture, i = 0; i < 4; ++i, rest /= 3) other.push_back(static_cast<Precision>(rest % 3));
      for (const Precisions& ours : path) {
        const bool faster = PredictedSeconds(costs, other) < PredictedSeconds(costs, ours);
        EXPECT_FALSE(faster && PredictedError(costs, other) < PredictedError(costs, ours) * (1 - 1e-9)) << round;
      }
    }
  }
}

}  // namespace
}  // namespace autotune
