// How wide indices must be. GPUs compute with 32 bits, so an index of 64 bits is two instructions and two registers.
// Pure; thread-safe. Internal to codegen/.
#pragma once
#include "ir/stmt.h"

namespace autotune {

// 32 if no index in the statement, nor any sum that its terms may be added up to in another order, reaches 2^31 in
// either direction; else 64.
int IndexBitsOf(const Stmt& s);

}  // namespace autotune
