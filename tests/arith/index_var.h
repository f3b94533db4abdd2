// For tests: a short way to make an index variable.
#pragma once
#include "ir/expr.h"

namespace autotune::test {

inline Expr V(const char* name) { return IndexVar(name); }

}  // namespace autotune::test
