// Text by a format of printf. Thread-safe.
#pragma once
#include <cstdio>
#include <string>

namespace autotune {

// Returns the formatted text, of at most 511 bytes; the rest is cut off.
template <class... Args>
std::string Format(const char* format, Args... args) {
  char text[512];
  std::snprintf(text, sizeof text, format, args...);
  return text;
}

}  // namespace autotune
