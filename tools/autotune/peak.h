// What one core of this host does at most: multiply-adds, and reading. Kernels of the target's own code generator, so
// that the numbers are those of kernels. The target must be this host's. Each call measures alone on this host if its
// lock can be had within `patience_ms`.
#pragma once
#include "codegen/builder.h"
#include "support/result.h"
#include "target/target.h"

namespace autotune::tools {

inline constexpr int kHostPatienceMs = 30000;  // for the host's lock, as device servers have it

// The seconds of one multiply-add of a whole vector in registers, where so many of them are independent. With one it is
// the latency.
Result<double> SecondsPerMultiplyAdd(const Target& target, Builder& builder, int accumulators, int patience_ms);

// The bytes a second that one core adds up of a buffer of that size, again and again.
Result<double> BytesReadPerSecond(const Target& target, Builder& builder, int64_t bytes, int patience_ms);

// fp32 operations per second of all of the target's cores, what "% of peak" refers to; one core is measured.
Result<double> MeasurePeakFlops(const Target& target, Builder& builder, int patience_ms = kHostPatienceMs);

}  // namespace autotune::tools
