// Limits of time of tuning runs, as texts. Thread-safe.
#pragma once
#include <string>

#include "support/result.h"

namespace autotune {

// Parses a duration into seconds: "90", "90s", "10m", "2h". An empty text is 0.
Result<double> ParseTimeBudget(const std::string& text);

}  // namespace autotune
