// A short name for index variables, for tests.
#pragma once
#include "ir/expr.h"

namespace autotune::test {

inline Expr V(const char* name) { return IndexVar(name); }

}  // namespace autotune::test
