// The measured arithmetic peak of this host, what "% of peak" refers to. Takes some milliseconds.
#pragma once
#include "codegen/builder.h"
#include "support/result.h"
#include "target/target.h"

namespace autotune::tools {

// fp32 operations per second of all of the target's cores: a loop of independent multiply-adds in registers, one core
// measured. The target must be this host's.
Result<double> MeasurePeakFlops(const Target& target, Builder& builder);

}  // namespace autotune::tools
