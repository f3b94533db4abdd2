// Whole files.
#pragma once
#include <string>

#include "support/result.h"

namespace autotune {

// The bytes of a file, also of one that does not know its size (/proc). The error names the path and says why.
Result<std::string> ReadFile(const std::string& path);

// Creates or replaces the file. The error names the path and says why; the file may then be incomplete.
Status WriteFile(const std::string& path, const std::string& bytes);

}  // namespace autotune
