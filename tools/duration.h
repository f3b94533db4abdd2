// Durations of command lines.
#pragma once
#include <cstdint>
#include <string>

#include "support/result.h"

namespace autotune::tools {

// Returns the milliseconds of a duration: "90s", "10m", "2h", "3d". The error names `option`.
Result<int64_t> ParseDuration(const std::string& option, const std::string& text);

}  // namespace autotune::tools
