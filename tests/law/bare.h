// C++ without comments and literals, for tests that look at braces and words.
#pragma once
#include <string>

namespace autotune::law {

// Returns `text` with its comments blank and its literals empty. Line numbers stay as they are.
std::string Bare(const std::string& text);

}  // namespace autotune::law
