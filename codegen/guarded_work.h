// What a code generator that computes both sides of a select must guard. Thread-safe. Internal to codegen/.
#pragma once
#include "ir/expr.h"

namespace autotune {

// Whether `e` contains work that may not be done where its value is not used: loads and divisions, and conversions of
// floats to integers, if those beyond the range are more to the generator's language than an arbitrary number.
bool HasGuardedWork(const Expr& e, bool conversions);

}  // namespace autotune
