// Texts of times. Thread-safe.
#pragma once
#include <cstdint>
#include <ctime>
#include <string>

namespace autotune {

// Formats a local time of day, given in milliseconds since 1970: "14:05:12".
inline std::string ClockText(int64_t unix_ms) {
  std::time_t seconds = unix_ms / 1000;
  std::tm local{};
  char text[16];
  if (!localtime_r(&seconds, &local) || !std::strftime(text, sizeof text, "%H:%M:%S", &local)) return "?";
  return text;
}

}  // namespace autotune
