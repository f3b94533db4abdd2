// Predicates on statements, by which code generators decide how to emit loops. Pure functions; thread-safe. Internal to
// codegen/.
#pragma once
#include "ir/stmt.h"

namespace autotune {

// Returns true if `s` is the body of an innermost loop that works on register buffers.
bool IsRegisterLoopBody(const Stmt& s);
// Returns true if `s` contains a loop of more than one iteration.
bool HasLoop(const Stmt& s);
// Returns true if `s` does nothing but start parallel loops.
bool OnlyForks(const Stmt& s);

}  // namespace autotune
