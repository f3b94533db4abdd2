#include "support/hash.h"

#include <gtest/gtest.h>

namespace autotune {
namespace {

// The check values of the algorithm's catalogues, and Python's zlib.crc32.
TEST(Hash, Crc32IsThatOfZip) {
  EXPECT_EQ(Crc32(""), 0u);
  EXPECT_EQ(Crc32("123456789"), 0xCBF43926u);
  EXPECT_EQ(Crc32("The quick brown fox jumps over the lazy dog"), 0x414FA339u);
  EXPECT_EQ(Crc32(std::string(1000, '\0')), 0x060B1780u);
}

TEST(Hash, Crc32FindsEveryChangeOfFourNeighbours) {
  const std::string bytes = "parameters of a network, some bytes long";
  for (size_t at = 0; at + 4 <= bytes.size(); ++at) {
    for (uint32_t change : {1u, 0x80u, 0xFFu, 0x01000001u, 0xFFFFFFFFu}) {
      std::string changed = bytes;
      for (int i = 0; i < 4; ++i) changed[at + static_cast<size_t>(i)] ^= static_cast<char>(change >> (8 * i));
      EXPECT_NE(Crc32(changed), Crc32(bytes)) << at << " " << change;
    }
  }
}

}  // namespace
}  // namespace autotune
