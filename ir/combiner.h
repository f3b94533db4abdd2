// Combiners: the binary operations that reductions are made of. All are associative and commutative up to rounding.
// Pure functions; thread-safe.
#pragma once
#include "ir/expr.h"

namespace autotune {

// kAdd, kMul, kMax, kMin.
bool IsCombiner(BinaryOp op);
// e with op(e, x) == x for every x of the dtype (NaN aside): 0, 1, lowest (-inf), highest (inf). CHECK: a combiner.
Expr IdentityOf(BinaryOp op, DType dtype);

}  // namespace autotune
