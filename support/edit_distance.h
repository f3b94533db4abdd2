// Edit distance: the number of typing errors between two words, and suggestions for a mistyped word. Thread-safe.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/result.h"

namespace autotune {

// Returns the restricted Damerau-Levenshtein distance: the least number of edits that turn one word into the other. An
// edit inserts, deletes or replaces a character or swaps two neighbours; no character is edited twice. O(|a| |b|) time
// and space.
size_t EditDistance(std::string_view a, std::string_view b);

// Returns whether one word is likely a mistyping of the other: at most two edits, or one edit per three characters.
bool IsNear(std::string_view a, std::string_view b);

// Returns the `words` near to `word`, nearest first; ties keep their order.
std::vector<std::string> NearWords(std::string_view word, std::span<const std::string> words);

// Returns "; did you mean NEAREST?" for the end of a message, or "" if no word is near.
std::string Suggestion(std::string_view word, std::span<const std::string> words);
// Returns the error with the hint "did you mean NEAREST?"; unchanged if no word is near.
Error WithSuggestion(Error error, std::string_view word, std::span<const std::string> words);

}  // namespace autotune
