// Integer arithmetic and parsing that the standard library lacks. Pure functions; thread-safe.
#pragma once
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

namespace autotune {

// The quotient rounded up, for a >= 0 and b > 0.
constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The least multiple of `unit` that is not below n, for n >= 0 and unit > 0.
template <class T>
constexpr T AlignUp(T n, std::type_identity_t<T> unit) {
  return (n + unit - 1) / unit * unit;
}

// Parses all of `text` as a decimal integer; nothing if it is none, or beyond the range of int64_t.
inline std::optional<int64_t> ParseInteger(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// a * b, limited to [-most, most].
template <int64_t most>
int64_t TimesWithin(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return (a < 0) == (b < 0) ? most : -most;
  return std::clamp(product, -most, most);
}

}  // namespace autotune
