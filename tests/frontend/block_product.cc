#include "tests/frontend/block_product.h"

#include <cmath>

#include "support/rng.h"
#include "tests/frontend/element_types.h"

namespace autotune {
namespace {

// Packs rows of `length` numbers of 4 or 8 bits.
std::vector<uint8_t> Packed(const std::vector<int>& numbers, int64_t length, int64_t bits) {
  std::vector<uint8_t> bytes;
  for (size_t row = 0; row < numbers.size(); row += static_cast<size_t>(length)) {
    for (int64_t i = 0; i < length; ++i) {
      const int number = numbers[row + static_cast<size_t>(i)];
      if (bits == 8 || i % 2 == 0) {
        bytes.push_back(static_cast<uint8_t>(number));
      } else {
        bytes.back() = static_cast<uint8_t>(bytes.back() | (number << 4));
      }
    }
  }
  return bytes;
}

// Adds the data of one row to `x`, and the same rounded to 8 bits to `rounded`: the first number of each block is the
// largest one, 127 times the scale.
void AddRoundedRow(const BlockProduct& p, Rng& rng, Numbers& x, Numbers& rounded) {
  double scale = 1;
  for (int64_t k = 0; k < p.k; ++k) {
    const bool is_first = k % p.block == 0;
    if (is_first) scale = (1 + rng.Uniform()) / 64;
    const double whole = is_first ? (rng.Below(2) == 0 ? 127 : -127) : static_cast<double>(rng.Below(253)) - 126;
    const double rest = is_first ? 0 : rng.Uniform() * 0.8 - 0.4;
    x.push_back(static_cast<float>((whole + rest) * scale));
    rounded.push_back(whole * scale);
  }
}

}  // namespace

BlockProductData AddBlockProduct(ModelMaker& m, const BlockProduct& p, const std::string& suffix, uint64_t seed) {
  Rng rng(seed);
  BlockProductData made;
  const int64_t blocks = p.Blocks(), terms = blocks * p.block;
  std::vector<int> numbers, zeros;
  std::vector<float> scales, bias, float_zeros;
  for (int64_t i = 0; i < p.n * terms; ++i) numbers.push_back(static_cast<int>(rng.Below(1 << p.bits)));
  for (int64_t i = 0; i < p.n * blocks; ++i) {
    const bool has_zeros = p.zeros != BlockProduct::kNone;
    zeros.push_back(has_zeros ? static_cast<int>(rng.Below(1 << p.bits)) : 1 << (p.bits - 1));
    float_zeros.push_back(static_cast<float>(zeros.back()) + 0.5f);
    scales.push_back(0.25f * static_cast<float>(1 + rng.Below(8)));
  }
  for (int64_t i = 0; i < p.n; ++i) bias.push_back(static_cast<float>(i));
  Numbers rounded;
  for (int64_t row = 0; row < p.rows; ++row) {
    if (p.level == 4) AddRoundedRow(p, rng, made.x, rounded);
    for (int64_t k = 0; k < p.k && p.level != 4; ++k) made.x.push_back(static_cast<double>(rng.Below(9)) - 4);
  }
  if (p.level != 4) rounded = made.x;
  for (int64_t row = 0; row < p.rows; ++row) {
    for (int64_t column = 0; column < p.n; ++column) {
      const double first = p.has_bias ? bias[static_cast<size_t>(column)] : 0;
      double sum = first, exact = first, magnitude = std::abs(first);
      for (int64_t k = 0; k < p.k; ++k) {
        const auto block = static_cast<size_t>(column * blocks + k / p.block), at = static_cast<size_t>(row * p.k + k);
        const double zero = p.zeros == BlockProduct::kFloats ? float_zeros[block] : zeros[block];
        const double weight = scales[block] * (numbers[static_cast<size_t>(column * terms + k)] - zero);
        sum += rounded[at] * weight, exact += made.x[at] * weight, magnitude += std::abs(made.x[at] * weight);
      }
      made.want.push_back(sum), made.want_exact.push_back(exact);
      made.bounds.push_back(magnitude * 0x1p-20);
    }
  }
  const auto named = [&](const char* name) { return name + suffix; };
  m.Input(named("x"), {p.rows, p.k}).Output(named("y")).ImportDomain("com.microsoft");
  m.Bytes8(named("w"), {p.n, blocks, p.block * p.bits / 8}, Packed(numbers, p.block, p.bits), kUInt8);
  m.Floats(named("s"), {p.n * blocks}, scales).Floats(named("bias"), {p.n}, bias);
  const std::vector<uint8_t> packed = Packed(zeros, blocks, p.bits);
  if (p.zeros == BlockProduct::kFloats) m.Floats(named("z"), {p.n * blocks}, float_zeros);
  if (p.zeros == BlockProduct::kPacked) m.Bytes8(named("z"), {static_cast<int64_t>(packed.size())}, packed, kUInt8);
  m.Node("MatMulNBits",
         {named("x"), named("w"), named("s"), p.zeros == BlockProduct::kNone ? "" : named("z"), "",
          p.has_bias ? named("bias") : ""},
         {named("y")})
      .Domain("com.microsoft")
      .Int("K", p.k)
      .Int("N", p.n)
      .Int("bits", p.bits)
      .Int("block_size", p.block)
      .Int("accuracy_level", p.level);
  return made;
}

}  // namespace autotune
