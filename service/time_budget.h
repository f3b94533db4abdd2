// Limits of time of tuning runs, as texts. Thread-safe.
#pragma once
#include <string>

#include "support/result.h"

namespace autotune {

// Returns the seconds of an option's duration: "90", "90s", "10m", "2h". The option's name is for the error.
Result<double> ParseSeconds(const std::string& option, const std::string& text);
// The same of --time-budget; an empty text is 0.
Result<double> ParseTimeBudget(const std::string& text);

}  // namespace autotune
