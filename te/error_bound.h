// The rounding errors that a kernel may have, element by element: a check of candidates allows an error where sums
// cancel, and only there. Thread-safe. Not a proof: see kRoundings.
#pragma once
#include <optional>

#include "ir/stmt.h"

namespace autotune::te {

// The number of units of roundoff that a bound allows per operation. A candidate may sum n terms in any order, which
// costs up to n units of the sum of their magnitudes, and about the root of n in practice: this suffices for 2^16
// terms. It also covers the guard of Winograd's algorithm (topi/winograd.h), which admits some hundred units, and the
// functions of lower/math.cc, which cost a few.
inline constexpr double kRoundings = 256;

// Returns ToReference(f) with one more output for each output, after all other parameters: bounds of the rounding
// errors that a candidate may have there. Inputs are exact. Each operation adds kRoundings units of roundoff of its
// result and passes on the errors of its operands: a product passes those of each factor, times the other factor. A
// sum of many terms adds units of each term, not of the partial sums, since their order is the candidate's choice. So
// the bound of a sum of products a * b is that many units of the sum of |a * b|. Bounds are infinite or NaN where
// values are. Returns nothing if no bound is known: for functions that take steps (te/reference.h), have floats of 16
// bits, or contain operations without a rule, such as tan.
std::optional<PrimFunc> ToBoundedReference(const PrimFunc& f);

}  // namespace autotune::te
