#include "frontend/onnx/weight_codes.h"

#include <algorithm>
#include <cmath>

#include "support/integer.h"

namespace autotune::onnx_import {
namespace {

int8_t Rounded(float weight, float scale, float low, float high) {
  return static_cast<int8_t>(std::clamp(std::nearbyint(weight / scale), low, high));
}

// A column's part of one block: every `stride`-th of the weights.
struct BlockView {
  const float* weights;
  int64_t count, stride;
};

double SquaredError(const BlockView& block, float scale) {
  double sum = 0;
  for (int64_t i = 0; i < block.count; ++i) {
    const float weight = block.weights[i * block.stride];
    const double error = weight - static_cast<float>(Rounded(weight, scale, -8, 7)) * scale;
    sum += error * error;
  }
  return sum;
}

// A smaller scale clips the largest weights of a block, and rounds all others more finely.
float BestScale(const BlockView& block) {
  constexpr double kDivisors[] = {7, 6.5, 7.5, 8, 8.5, 9};  // [chosen] of the largest magnitude
  float largest = 0;
  for (int64_t i = 0; i < block.count; ++i) largest = std::max(largest, std::abs(block.weights[i * block.stride]));
  float best = 1;
  double least = HUGE_VAL;
  for (double divisor : kDivisors) {
    const auto scale = static_cast<float>(largest / divisor);
    if (!std::isnormal(scale)) break;
    if (const double error = SquaredError(block, scale); error < least) least = error, best = scale;
  }
  return best;
}

}  // namespace

WeightCodes QuantizeChannels(std::span<const float> weights, const ChannelLayout& layout,
                             std::span<const float> least_scales) {
  WeightCodes result{std::vector<int8_t>(weights.size()), std::vector<float>(layout.channels, 0)};
  const auto for_each = [&](const auto& visit) {
    for (size_t i = 0; i < weights.size(); ++i) visit(i, static_cast<int64_t>(i) / layout.inner % layout.channels);
  };
  for_each([&](size_t i, int64_t c) { result.scales[c] = std::max(result.scales[c], std::abs(weights[i])); });
  for (int64_t c = 0; c < layout.channels; ++c) {
    float& scale = result.scales[c];
    scale /= 127;
    if (!least_scales.empty()) scale = std::max(scale, least_scales[c]);
    if (!std::isnormal(scale)) scale = 1;
  }
  for_each([&](size_t i, int64_t c) { result.codes[i] = Rounded(weights[i], result.scales[c], -127, 127); });
  return result;
}

WeightCodes QuantizeBlocks(std::span<const float> weights, int64_t k, int64_t n, int64_t block) {
  const int64_t blocks = CeilDiv(k, block);
  WeightCodes result{std::vector<int8_t>(weights.size()), std::vector<float>(blocks * n)};
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t begin = b * block, count = std::min(block, k - begin);
    for (int64_t column = 0; column < n; ++column) {
      const float scale = BestScale({&weights[begin * n + column], count, n});
      result.scales[b * n + column] = scale;
      for (int64_t row = begin; row < begin + count; ++row)
        result.codes[row * n + column] = Rounded(weights[row * n + column], scale, -8, 7);
    }
  }
  return result;
}

std::vector<uint8_t> PackedInt4(std::span<const int8_t> codes) {
  std::vector<uint8_t> bytes((codes.size() + 1) / 2, 0);
  for (size_t i = 0; i < codes.size(); ++i)
    bytes[i / 2] = static_cast<uint8_t>(bytes[i / 2] | (codes[i] & 15) << (i % 2 * 4));
  return bytes;
}

}  // namespace autotune::onnx_import
