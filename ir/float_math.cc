#include "ir/float_math.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "support/half.h"

namespace autotune {
namespace {

struct Format {
  int precision;  // bits of the significand, the implied one included
  int min_exponent, max_exponent;
};
constexpr Format kHalf{11, -14, 15}, kBFloat{8, -126, 127};

const Format* NarrowFormat(DType dtype) {
  if (dtype.code == TypeCode::kBFloat) return &kBFloat;
  return dtype.code == TypeCode::kFloat && dtype.bits == 16 ? &kHalf : nullptr;
}

double RoundTo(double value, const Format& f) {
  if (value == 0 || std::isinf(value)) return value;
  if (std::isnan(value)) return std::copysign(std::nan(""), value);
  int exponent = std::max(std::ilogb(value), f.min_exponent);
  double quantum = std::ldexp(1.0, exponent - (f.precision - 1));
  // value / quantum is denormal only if it rounds to zero anyway.
  double rounded = std::nearbyint(value / quantum) * quantum;
  if (std::abs(rounded) >= std::ldexp(1.0, f.max_exponent + 1)) return std::copysign(INFINITY, value);
  return rounded == 0 ? std::copysign(0.0, value) : rounded;
}

}  // namespace

double RoundFloat(double value, DType dtype) {
  if (const Format* format = NarrowFormat(dtype)) return RoundTo(value, *format);
  return dtype.code == TypeCode::kFloat && dtype.bits == 32 ? static_cast<float>(value) : value;
}

double RoundToTf32(double value) {
  if (!std::isfinite(value)) return value;
  constexpr uint32_t kDropped = (1 << 13) - 1;  // bits of an f32 that TF32 does not have
  const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return std::bit_cast<float>((bits + kDropped / 2 + 1) & ~kDropped);
}

uint64_t FloatToBits(double value, DType dtype) {
  if (dtype.bits == 64) return std::bit_cast<uint64_t>(value);
  uint32_t single = std::bit_cast<uint32_t>(static_cast<float>(value));
  if (dtype.bits == 32) return single;
  if (dtype.code == TypeCode::kBFloat) return single >> 16;
  uint64_t sign = uint64_t{std::signbit(value)} << 15;
  if (std::isnan(value)) return sign | 0x7e00;
  if (std::isinf(value)) return sign | 0x7c00;
  if (value == 0) return sign;
  int exponent = std::max(std::ilogb(value), kHalf.min_exponent);
  // The implied bit of a normal number adds 1 to the exponent field; a denormal number has no such bit.
  auto significand = static_cast<uint64_t>(std::ldexp(std::abs(value), 10 - exponent));
  return sign | (static_cast<uint64_t>(exponent + 14) * 1024 + significand);
}

double FloatFromBits(uint64_t bits, DType dtype) {
  if (dtype.bits == 64) return std::bit_cast<double>(bits);
  if (dtype.bits == 32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  const auto narrow = static_cast<uint16_t>(bits);
  return dtype.code == TypeCode::kBFloat ? BFloatFromBits(narrow) : HalfFromBits(narrow);
}

}  // namespace autotune
