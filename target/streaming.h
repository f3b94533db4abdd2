// Decides which results are written by streaming (non-temporal) stores. Pure functions; thread-safe.
#pragma once
#include <cstdint>

#include "target/target.h"

namespace autotune {

// Returns true if kernels write a result of this size by streaming stores, which bypass the caches. They do so on
// x86-64, if the result is so large that the next kernel would not find it in a cache.
bool IsStreamed(int64_t bytes, const Target& target);

}  // namespace autotune
