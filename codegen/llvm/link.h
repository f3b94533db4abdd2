// Links relocatable objects into a shared object with LLD as a library. Not thread-safe. Internal to codegen/llvm.
#pragma once
#include <string>
#include <vector>

#include "support/result.h"

namespace autotune {

// Errors: an undefined or doubly defined symbol, no room in the scratch directory.
Result<std::string> LinkShared(const std::vector<const std::string*>& objects);

}  // namespace autotune
