// Hashes of bytes: XXH3 with 64 and 128 bits, and CRC-32. The values are stored (task hashes, seals), so the algorithms
// never change.
// Not cryptographic. Thread-safe.
#pragma once
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace autotune {

uint64_t Hash64(std::string_view bytes, uint64_t seed = 0);

struct Hash128 {
  uint64_t high = 0, low = 0;
  auto operator<=>(const Hash128&) const = default;
  std::string Hex() const;  // 32 lower-case digits
};
Hash128 HashBytes128(std::string_view bytes);

// Returns the CRC-32 of gzip, zip and PNG, which the standard libraries of most languages have. It detects every change
// within four neighbouring bytes.
uint32_t Crc32(std::string_view bytes);

inline uint64_t HashCombine(uint64_t a, uint64_t b) {  // boost::hash_combine, widened to 64 bits
  return a ^ (b + 0x9e3779b97f4a7c15ULL + (a << 12) + (a >> 4));
}

}  // namespace autotune

template <>
struct std::hash<autotune::Hash128> {
  size_t operator()(const autotune::Hash128& h) const { return h.low; }
};
