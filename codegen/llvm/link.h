// Links relocatable objects into a shared object with LLD as a library. Not thread-safe. Internal to codegen/llvm.
#pragma once
#include <string>
#include <vector>

#include "support/result.h"

namespace autotune {

// Returns the shared object, sealed (runtime/seal.h). Errors: an undefined or doubly defined symbol, no memory.
Result<std::string> LinkShared(const std::vector<const std::string*>& objects);
// Links the objects and one more object in the file `data`. Writes the result to `output`, an existing empty file.
// Memory holds the output once and no other copy of `data`. Further errors: a file cannot be read or written.
Status LinkSharedFile(const std::vector<const std::string*>& objects, const std::string& data,
                      const std::string& output);

}  // namespace autotune
