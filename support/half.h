// Decodes 16-bit floats: IEEE's binary16, and bfloat16, which is the upper half of a binary32. Pure functions.
#pragma once
#include <cstdint>

namespace autotune {

// Return the number that the bits represent, exactly. A NaN keeps its sign.
float HalfFromBits(uint16_t bits);
float BFloatFromBits(uint16_t bits);

}  // namespace autotune
