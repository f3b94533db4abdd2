// For tests of the sources: C++ text without comments and literals.
#pragma once
#include <string>

namespace autotune::law {

// Returns `text` with blank comments and empty literals. Line numbers do not change.
std::string Bare(const std::string& text);

}  // namespace autotune::law
