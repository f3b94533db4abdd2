// For tests of the sources: C++ text without comments and literals.
#pragma once
#include <string>

namespace autotune::law {

// Returns `text` without comments and without string and character literals, quotes included. Line breaks stay, so line
// numbers do not change.
std::string Bare(const std::string& text);

// Returns the position after the bracket that closes the one at `begin`.
size_t Behind(const std::string& text, size_t begin);

}  // namespace autotune::law
