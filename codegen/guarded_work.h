// Finds the operations that a generator must guard if it computes both sides of a select. Thread-safe. Internal to
// codegen/.
#pragma once
#include "ir/expr.h"

namespace autotune {

// Returns true if `e` contains a load or a division. The program may run these only where it uses their value, since
// they could fault elsewhere.
bool HasGuardedWork(const Expr& e);

}  // namespace autotune
