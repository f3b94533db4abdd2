// Joined: words as one text. Pure functions; thread-safe.
#pragma once
#include <string>
#include <string_view>
#include <type_traits>

namespace autotune {

// Returns the words with `separator` between neighbours. A word is a text or an integer.
template <class Words>
std::string Joined(const Words& words, std::string_view separator = ", ") {
  std::string text;
  bool first = true;
  for (const auto& word : words) {
    if (!first) text += separator;
    first = false;
    if constexpr (std::is_convertible_v<decltype(word), std::string_view>) {
      text += std::string_view(word);
    } else {
      text += std::to_string(word);
    }
  }
  return text;
}

}  // namespace autotune
