// Combiners: the binary operations that reductions are made of. All are associative and commutative up to rounding.
// Pure functions; thread-safe.
#pragma once
#include "ir/expr.h"

namespace autotune {

// kAdd, kMul, kMax, kMin.
bool IsCombiner(BinaryOp op);
// Returns the neutral value e of a combiner: op(e, x) == x for every x of the dtype but NaN. It is 0 for kAdd, 1 for
// kMul, the lowest value (-inf) for kMax, and the highest value (inf) for kMin. CHECKs that `op` is a combiner.
Expr IdentityOf(BinaryOp op, DType dtype);

}  // namespace autotune
