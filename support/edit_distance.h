// Edit distance: how many typing errors lie between two words, and what a mistyped word may have meant. Thread-safe.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autotune {

// Edits from one word to the other: insert, delete or replace a character, swap two neighbours, none of them edited
// again (the restricted Damerau-Levenshtein distance). O(|a| |b|) time and space.
size_t EditDistance(std::string_view a, std::string_view b);

// Is `b` so near to `a` that one is likely a mistyping of the other: at most two edits, or one in three characters?
bool IsNear(std::string_view a, std::string_view b);

// The `words` near to `word`, nearest first, ties in their order.
std::vector<std::string> NearWords(std::string_view word, std::span<const std::string> words);

}  // namespace autotune
