// Writes numbers into texts of JSON, each in the shortest form that reads back as the same number. For messages of many
// numbers, for which a tree of Json values takes too long. Stateless, thread-safe.
#pragma once
#include <charconv>
#include <cmath>
#include <span>
#include <string>

namespace autotune {

// Appends a number; null for infinities and NaN.
template <class Number>
void AppendNumber(std::string& text, Number number) {
  char digits[32];
  if (std::isfinite(number)) {
    text.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
  } else {
    text += "null";
  }
}

// Appends an array.
inline void AppendNumbers(std::string& text, std::span<const float> numbers) {
  text += '[';
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) text += ',';
    AppendNumber(text, numbers[i]);
  }
  text += ']';
}

}  // namespace autotune
