#include "service/time_budget.h"

#include <cstdlib>

#include "support/hint.h"

namespace autotune {

Result<double> ParseTimeBudget(const std::string& text) {
  if (text.empty()) return 0.0;
  return ParseSeconds("--time-budget", text);
}

Result<double> ParseSeconds(const std::string& option, const std::string& text) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  std::string unit = end;
  double scale = unit == "" || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  constexpr double kLongest = 1e7;  // seconds; 115 days, far beyond any tuning run
  if (end == text.c_str() || scale == 0 || !(value > 0 && value * scale <= kLongest))
    return WithHint(Err(option, " ", text, " is no duration"), "say 90s, 10m or 2h");
  return value * scale;
}

}  // namespace autotune
