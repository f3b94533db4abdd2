// Chooses the width of indices on GPUs. GPUs compute with 32 bits, so a 64-bit index takes two registers, and two
// instructions per operation. Pure functions; thread-safe. Internal to codegen/.
#pragma once
#include "ir/stmt.h"

namespace autotune {

// Returns 32 if every index in the statement, and every partial sum of its terms in any order, has an absolute value
// below 2^31; else 64.
int IndexBitsOf(const Stmt& s);

}  // namespace autotune
