// Finds equal terms of large expressions. A schedule step that inlines a stage writes the stage's formula out for each
// use. So the formula of a chain of stages that use their input twice grows exponentially, and LLVM or a C compiler
// takes longer for it than a build may take. Thread-safe. Internal to codegen/.
#pragma once
#include "ir/expr.h"

namespace autotune {

// Returns an expression that is Equal to `e` (ir/visit.h) and, if `e` is large, has each of its terms only once: equal
// terms are the same cell, whose value the code generator computes once. Returns `e` itself if it is small.
Expr WithSharedTerms(const Expr& e);

}  // namespace autotune
