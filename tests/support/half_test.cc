#include "support/half.h"

#include <gtest/gtest.h>

#include <cmath>

namespace autotune {
namespace {

TEST(Half, Numbers) {
  EXPECT_EQ(HalfFromBits(0x3c00), 1);
  EXPECT_EQ(HalfFromBits(0xc580), -5.5f);
  EXPECT_EQ(HalfFromBits(0x7bff), 65504);
  EXPECT_EQ(HalfFromBits(0x0400), 0x1p-14f);
  EXPECT_EQ(HalfFromBits(0x0001), 0x1p-24f);
  EXPECT_EQ(BFloatFromBits(0x3f80), 1);
  EXPECT_EQ(BFloatFromBits(0xc0b0), -5.5f);
  EXPECT_EQ(BFloatFromBits(0x0001), 0x1p-133f);
}

TEST(Half, SpecialNumbers) {
  for (auto from_bits : {HalfFromBits, BFloatFromBits}) {
    EXPECT_TRUE(std::signbit(from_bits(0x8000)));
    EXPECT_EQ(from_bits(0x8000), 0);
    EXPECT_TRUE(std::isnan(from_bits(0x7fc1)));
    EXPECT_TRUE(std::signbit(from_bits(0xffc1)));
  }
  EXPECT_EQ(HalfFromBits(0x7c00), INFINITY);
  EXPECT_EQ(HalfFromBits(0xfc00), -INFINITY);
  EXPECT_EQ(BFloatFromBits(0xff80), -INFINITY);
}

}  // namespace
}  // namespace autotune
