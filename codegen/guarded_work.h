// Finds the operations that a generator must guard if it computes both sides of a select. Thread-safe. Internal to
// codegen/.
#pragma once
#include <vector>

#include "ir/expr.h"

namespace autotune {

// Returns true if `e` contains a load or a division. The program may run these only where it uses their value, since
// they could fault elsewhere.
bool HasGuardedWork(const Expr& e);

// Returns the largest terms that `a` and `b` both use whenever their own value is used: not those in the sides of
// selects. A generator computes such terms of the two sides of a select before both. If it computed them in each side,
// the code of a chain of selects would double with each stage.
std::vector<Expr> CommonTerms(const Expr& a, const Expr& b);

}  // namespace autotune
