// What a code generator that computes both sides of a select must guard. Thread-safe. Internal to codegen/.
#pragma once
#include "ir/expr.h"

namespace autotune {

// Returns true if `e` contains work that may not be done where its value is not used: loads and divisions.
bool HasGuardedWork(const Expr& e);

}  // namespace autotune
