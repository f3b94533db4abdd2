// The integers, scales and ranges that the quantizer chooses.
#include "frontend/onnx/weight_codes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "frontend/onnx/value_range.h"
#include "support/rng.h"

namespace autotune {
namespace {

using onnx_import::QuantizeBlocks;
using onnx_import::QuantizeChannels;
using onnx_import::WeightCodes;
using testing::ElementsAre;

TEST(WeightCodes, EachChannelHasItsScale) {
  // Two output channels of a Conv [2, 3], and the columns of a matrix [3, 2].
  const WeightCodes rows = QuantizeChannels(std::vector<float>{1, -2, 4, 100, 50, -25}, {1, 2, 3});
  EXPECT_THAT(rows.scales, ElementsAre(4 / 127.f, 100 / 127.f));
  EXPECT_THAT(rows.codes, ElementsAre(32, -64, 127, 127, 64, -32));
  const WeightCodes columns = QuantizeChannels(std::vector<float>{1, 100, -2, 50, 4, -25}, {3, 2, 1});
  EXPECT_THAT(columns.scales, ElementsAre(4 / 127.f, 100 / 127.f));
  EXPECT_THAT(columns.codes, ElementsAre(32, 127, -64, 64, 127, -32));
}

TEST(WeightCodes, ChannelsOfZerosAndLeastScales) {
  const WeightCodes codes = QuantizeChannels(std::vector<float>{0, 0, 1, 2, 1e-42f, 0}, {1, 3, 2});
  EXPECT_THAT(codes.scales, ElementsAre(1, 2 / 127.f, 1));
  EXPECT_THAT(codes.codes, ElementsAre(0, 0, 64, 127, 0, 0));
  const WeightCodes least =
      QuantizeChannels(std::vector<float>{0, 0, 1, 2}, {1, 2, 2}, std::vector<float>{0.5f, 0.01f});
  EXPECT_THAT(least.scales, ElementsAre(0.5f, 2 / 127.f));
}

TEST(WeightCodes, BlocksOfFourBitsFollowTheirOwnMagnitude) {
  // Two blocks of a column, one of small numbers and one of large ones, beside a column of zeros.
  std::vector<float> weights(64 * 2, 0);
  for (int k = 0; k < 64; ++k) weights[k * 2] = static_cast<float>(k % 15 - 7) * (k < 32 ? 1 : 100);
  const WeightCodes codes = QuantizeBlocks(weights, 64, 2, 32);
  EXPECT_THAT(codes.scales, ElementsAre(1, 1, 100, 1));
  for (int k = 0; k < 64; ++k) {
    EXPECT_EQ(codes.codes[k * 2], k % 15 - 7);
    EXPECT_EQ(codes.codes[k * 2 + 1], 0);
  }
  // The last block may be shorter. One outlier makes the others of its block coarse, but not those of other blocks.
  weights.assign(33, 1);
  weights[0] = 1000;
  const WeightCodes odd = QuantizeBlocks(weights, 33, 1, 32);
  EXPECT_EQ(odd.codes[1], 0);
  EXPECT_NEAR(static_cast<float>(odd.codes[32]) * odd.scales[1], 1, 1e-6);
}

TEST(WeightCodes, FourBitsAreNoWorseThanTheWholeRange) {
  Rng rng(5);
  std::vector<float> weights(32 * 64);
  for (float& w : weights) w = static_cast<float>(rng.Below(2001)) / 1000 - 1;
  const WeightCodes codes = QuantizeBlocks(weights, 32, 64, 32);
  double ours = 0, plain = 0;
  for (int n = 0; n < 64; ++n) {
    float largest = 0;
    for (int k = 0; k < 32; ++k) largest = std::max(largest, std::abs(weights[k * 64 + n]));
    for (int k = 0; k < 32; ++k) {
      const float w = weights[k * 64 + n], scale = largest / 7;
      ours += std::pow(w - static_cast<float>(codes.codes[k * 64 + n]) * codes.scales[n], 2);
      plain += std::pow(w - std::nearbyint(w / scale) * scale, 2);
    }
  }
  EXPECT_LT(ours, plain);
}

TEST(WeightCodes, PacksTheLowerHalfFirst) {
  EXPECT_THAT(onnx_import::PackedInt4(std::vector<int8_t>{1, -1, -8}), ElementsAre(0xf1, 0x08));
}

TEST(ValueRange, ZeroIsExactAndInRange) {
  for (const ValueRange range : {ValueRange{-1, 3}, {2, 5}, {-7, -3}, {-0.1f, 1e6f}, {-1e6f, 0.1f}}) {
    const ByteScale scale = ScaleOf(range);
    const double low = (0 - scale.zero) * static_cast<double>(scale.scale),
                 high = (255 - scale.zero) * static_cast<double>(scale.scale);
    EXPECT_LE(low, std::min(0.f, range.low) + scale.scale / 2);
    EXPECT_GE(high, std::max(0.f, range.high) - scale.scale / 2);
  }
  EXPECT_EQ(ScaleOf({2, 5}).zero, 0);      // extended to 0
  EXPECT_EQ(ScaleOf({-7, -3}).zero, 255);  // the same below
  EXPECT_EQ(ScaleOf({0, 0}).scale, 1);     // no division by 0
  EXPECT_EQ(ScaleOf({0, 1e-42f}).scale, 1);
}

TEST(ValueRange, PercentileLeavesOutliersOut) {
  std::vector<float> values(100000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 1e5f - 0.25f;
  values[7] = 1e30f, values[8] = -std::numeric_limits<float>::max();
  RangeObserver all, most(99.9);
  all.Add(values), most.Add(values);
  EXPECT_EQ(all.Range().high, 1e30f);
  EXPECT_EQ(all.Range().low, -std::numeric_limits<float>::max());
  EXPECT_NEAR(most.Range().low, -0.25, 0.005);
  EXPECT_NEAR(most.Range().high, 0.75, 0.005);
}

TEST(ValueRange, PercentileOfFewOrEqualValuesStaysWithin) {
  RangeObserver equal(99.99), none(99.99), infinite;
  equal.Add(std::vector<float>{2, 2, 2});
  EXPECT_EQ(equal.Range().low, 2);
  EXPECT_EQ(equal.Range().high, 2);
  EXPECT_EQ(none.Range().high, 0);
  infinite.Add(std::vector<float>{1, INFINITY, NAN, -3});
  EXPECT_EQ(infinite.Range().low, -3);
  EXPECT_EQ(infinite.Range().high, 1);
  EXPECT_EQ(infinite.infinite(), 2);
}

}  // namespace
}  // namespace autotune
