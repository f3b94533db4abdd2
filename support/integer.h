// Integer arithmetic that the language lacks. Pure functions; thread-safe.
#pragma once
#include <algorithm>
#include <cstdint>

namespace autotune {

// The quotient rounded up, for a >= 0 and b > 0.
constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// a * b, limited to [-most, most].
template <int64_t most>
int64_t TimesWithin(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return (a < 0) == (b < 0) ? most : -most;
  return std::clamp(product, -most, most);
}

}  // namespace autotune
