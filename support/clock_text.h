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

// Formats how long something has lasted, in one unit: "47 s", "4 min", "3 h".
inline std::string LastingText(int64_t ms) {
  if (ms < 120 * 1000) return std::to_string(ms / 1000) + " s";
  if (ms < 120 * 60 * 1000) return std::to_string(ms / 60000) + " min";
  return std::to_string(ms / 3600000) + " h";
}

}  // namespace autotune
