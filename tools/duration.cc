#include "tools/duration.h"

#include <algorithm>
#include <cstdlib>

#include "support/hint.h"

namespace autotune::tools {

Result<int64_t> ParseDuration(const std::string& option, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  const double scale = unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : unit == "d" ? 86400 : 0;
  constexpr double kLongest = 366 * 86400.0;  // in seconds
  if (end == text.c_str() || scale == 0 || !(value > 0 && value * scale <= kLongest))
    return WithHint(Err(option, " ", text, " is no duration of 366 days at most"), "say 90s, 10m, 2h or 3d");
  return std::max<int64_t>(1, static_cast<int64_t>(value * scale * 1000));
}

}  // namespace autotune::tools
