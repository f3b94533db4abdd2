// The threads of kernels that no schedule binds to threads (the pass bind_rest).
#pragma once
#include <cstdint>

namespace autotune {

// Most threads of a block: several warps, so that a GPU can hide latencies, but few enough that the block fits on every
// GPU even if each thread takes the largest number of registers.
inline constexpr int64_t kUnboundThreads = 256;

}  // namespace autotune
