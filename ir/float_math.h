// Rounding to the float dtypes of the language, done in doubles. Pure functions.
#pragma once
#include <cstdint>

#include "ir/dtype.h"

namespace autotune {

// The nearest value of a float dtype (ties to even; beyond the largest finite value: infinity; denormals are kept).
// One rounding; a NaN stays a NaN of the same sign.
double RoundFloat(double value, DType dtype);

// The bits of a value that RoundFloat gave, zero-extended, and back.
uint64_t FloatToBits(double value, DType dtype);
double FloatFromBits(uint64_t bits, DType dtype);

}  // namespace autotune
