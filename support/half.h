// Floats of 16 bits by their bits: IEEE's binary16 and bfloat16, the upper half of a binary32. Pure functions.
#pragma once
#include <cstdint>

namespace autotune {

// The number that the bits stand for; exact. A NaN keeps its sign.
float HalfFromBits(uint16_t bits);
float BFloatFromBits(uint16_t bits);

}  // namespace autotune
