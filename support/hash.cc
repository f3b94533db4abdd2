#include "support/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cstring>

namespace autotune {
namespace {

constexpr size_t kSlices = 8;  // bytes per step of the CRC; one table for each

// Tables of "slicing by 8": table k has the remainder of each byte that k zero bytes follow.
constexpr std::array<std::array<uint32_t, 256>, kSlices> CrcTables() {
  constexpr uint32_t kPolynomial = 0xEDB88320;  // of CRC-32, with its bits reversed
  std::array<std::array<uint32_t, 256>, kSlices> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ (rest & 1 ? kPolynomial : 0);
    tables[0][byte] = rest;
  }
  for (size_t k = 1; k < kSlices; ++k) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 255];
    }
  }
  return tables;
}

}  // namespace

uint64_t Hash64(std::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

Hash128 HashBytes128(std::string_view bytes) {
  XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  return {h.high64, h.low64};
}

uint32_t Crc32(std::string_view bytes) {
  static constexpr auto kTables = CrcTables();
  uint32_t rest = 0xFFFFFFFF;
  for (; bytes.size() >= kSlices; bytes.remove_prefix(kSlices)) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof word);  // little-endian, as all of our machines are
    word ^= rest;
    rest = 0;
    for (size_t k = 0; k < kSlices; ++k) rest ^= kTables[kSlices - 1 - k][(word >> (8 * k)) & 255];
  }
  for (char c : bytes) rest = (rest >> 8) ^ kTables[0][(rest ^ static_cast<unsigned char>(c)) & 255];
  return ~rest;
}

std::string Hash128::Hex() const {
  static const char kDigits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (int i = 0; i < 16; ++i) {
    text[15 - i] = kDigits[(high >> (4 * i)) & 15];
    text[31 - i] = kDigits[(low >> (4 * i)) & 15];
  }
  return text;
}

}  // namespace autotune
