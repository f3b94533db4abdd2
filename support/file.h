// Whole files.
#pragma once
#include <string>

#include "support/result.h"

namespace autotune {

// The bytes of a file, also of one that does not know its size (/proc). The error names the path and says why.
Result<std::string> ReadFile(const std::string& path);

}  // namespace autotune
