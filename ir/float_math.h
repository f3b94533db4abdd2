// Rounding to the float dtypes of the language, done in doubles. Pure functions.
#pragma once
#include <cstdint>

#include "ir/dtype.h"

namespace autotune {

// The nearest value of a float dtype (ties to even; beyond the largest finite value: infinity; denormals are kept).
// One rounding; a NaN stays a NaN of the same sign.
double RoundFloat(double value, DType dtype);

// Rounds to TF32, an f32 with 10 bits of fraction, as PTX's cvt.rna.tf32 does. Ties round away from zero. Values beyond
// the largest finite one become infinity. Denormal values lose the same low bits as others. A NaN stays a NaN.
double RoundToTf32(double value);

// Convert a value that is exact in the dtype, such as a result of RoundFloat, to its bits (zero-extended), and back.
uint64_t FloatToBits(double value, DType dtype);
double FloatFromBits(uint64_t bits, DType dtype);

}  // namespace autotune
