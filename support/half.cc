#include "support/half.h"

#include <bit>
#include <cmath>
#include <limits>

namespace autotune {

float HalfFromBits(uint16_t bits) {
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  const int exponent = bits >> 10 & 31;
  const auto fraction = static_cast<float>(bits & 1023);
  if (exponent == 31) {
    const float special =
        fraction != 0 ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
    return std::copysign(special, sign);
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(fraction + 1024, exponent - 25);
}

float BFloatFromBits(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

}  // namespace autotune
