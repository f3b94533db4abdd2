// Integers for the weights of a network, with their scales. Stateless, thread-safe.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace autotune::onnx_import {

// Weights seen as [outer, channels, inner], in C order: each channel has a scale of its own.
struct ChannelLayout {
  int64_t outer = 1, channels = 1, inner = 1;
};

struct WeightCodes {
  std::vector<int8_t> codes;  // parallel to the weights
  std::vector<float> scales;  // a weight is about its code times its scale
};

// Rounds weights to integers from -127 to 127, with the zero point 0. The scale of a channel is its largest magnitude /
// 127, but at least `least_scales[channel]` (empty: no least scale). A channel of zeros without a least scale gets the
// scale 1.
WeightCodes QuantizeChannels(std::span<const float> weights, const ChannelLayout& layout,
                             std::span<const float> least_scales = {});

// Rounds a matrix [k, n] to integers from -8 to 7, with one scale for each block of `block` consecutive rows of a
// column: scales are [ceil(k / block), n]. Of some scales near the largest magnitude / 7, each block takes the one with
// the least squared error. A block of zeros gets the scale 1.
WeightCodes QuantizeBlocks(std::span<const float> weights, int64_t k, int64_t n, int64_t block);

// Packs integers of 4 bits, two a byte, the lower half first, as ONNX stores int4.
std::vector<uint8_t> PackedInt4(std::span<const int8_t> codes);

}  // namespace autotune::onnx_import
