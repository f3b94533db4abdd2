// Rounding to the float dtypes of the language, done in doubles. Pure functions.
#pragma once
#include <cstdint>

#include "ir/dtype.h"

namespace autotune {

// The nearest value of a float dtype (ties to even; beyond the largest finite value: infinity; denormals are kept).
// One rounding; a NaN stays a NaN of the same sign.
double RoundFloat(double value, DType dtype);

// Returns the nearest value with 10 bits after the point, as PTX's cvt.rna.tf32 does. Ties round away from zero. Values
// beyond the largest finite one become infinity. Denormal f32 values stay, as far as their bits reach. A NaN stays a
// NaN.
double RoundToTf32(double value);

// The bits of a value that RoundFloat gave, zero-extended, and back.
uint64_t FloatToBits(double value, DType dtype);
double FloatFromBits(uint64_t bits, DType dtype);

}  // namespace autotune
