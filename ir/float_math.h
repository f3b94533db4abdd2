// Rounding to the float dtypes of the language, done in doubles. Pure functions.
#pragma once
#include <cstdint>

#include "ir/dtype.h"

namespace autotune {

// The nearest value of a float dtype (ties to even; beyond the largest finite value: infinity; denormals are kept).
// One rounding; a NaN stays a NaN of the same sign.
double RoundFloat(double value, DType dtype);

// The nearest value that has 10 bits behind the point, as cvt.rna.tf32 of PTX: ties away from zero; beyond the largest
// finite one infinity; denormals of f32 are kept as far as their bits go. Of a NaN, a NaN.
double RoundToTf32(double value);

// The bits of a value that RoundFloat gave, zero-extended, and back.
uint64_t FloatToBits(double value, DType dtype);
double FloatFromBits(uint64_t bits, DType dtype);

}  // namespace autotune
