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

// Formats a later local time, given in milliseconds since 1970, as seen at `now`: "14:05", with the date before it if
// it is another day.
inline std::string MomentText(int64_t unix_ms, int64_t now) {
  const std::time_t then = unix_ms / 1000, seen = now / 1000;
  std::tm local{}, today{};
  char text[32];
  if (!localtime_r(&then, &local) || !localtime_r(&seen, &today)) return "?";
  const bool same_day = local.tm_yday == today.tm_yday && local.tm_year == today.tm_year;
  if (!std::strftime(text, sizeof text, same_day ? "%H:%M" : "%Y-%m-%d %H:%M", &local)) return "?";
  return text;
}

// Formats how long something has lasted, in one unit: "47 s", "4 min", "3 h".
inline std::string LastingText(int64_t ms) {
  if (ms < 120 * 1000) return std::to_string(ms / 1000) + " s";
  if (ms < 120 * 60 * 1000) return std::to_string(ms / 60000) + " min";
  return std::to_string(ms / 3600000) + " h";
}

}  // namespace autotune
