// Limits of time of tuning runs, as texts. Thread-safe.
#pragma once
#include <string>

#include "support/result.h"

namespace autotune {

// Parses a duration into seconds: "90", "90s", "10m", "2h". An empty text is 0.
// Parses the duration of an option, whose name is for the error; not empty.
Result<double> ParseDuration(const std::string& option, const std::string& text);
Result<double> ParseTimeBudget(const std::string& text);

}  // namespace autotune
