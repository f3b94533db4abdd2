// The measured arithmetic peak of this host, what "% of peak" refers to. Takes some milliseconds.
#pragma once
#include "codegen/builder.h"
#include "support/result.h"
#include "target/target.h"

namespace autotune::tools {

inline constexpr int kHostPatienceMs = 30000;  // for the host's lock, as device servers have it

// fp32 operations per second of all of the target's cores: a loop of independent multiply-adds in registers, one core
// measured. The target must be this host's. Measures alone on this host if its lock can be had within `patience_ms`.
Result<double> MeasurePeakFlops(const Target& target, Builder& builder, int patience_ms = kHostPatienceMs);

}  // namespace autotune::tools
