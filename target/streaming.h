// Which results are written with streaming (non-temporal) stores. Pure functions; thread-safe.
#pragma once
#include <cstdint>

#include "target/target.h"

namespace autotune {

// Returns true if a result of that size bypasses the caches, because the next kernel would not find it there.
bool IsStreamed(int64_t bytes, const Target& target);

}  // namespace autotune
