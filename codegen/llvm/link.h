// Links relocatable objects into a shared object with LLD as a library. Not thread-safe. Internal to codegen/llvm.
#pragma once
#include <string>
#include <vector>

#include "support/result.h"

namespace autotune {

// Returns the shared object, sealed (runtime/seal.h). Errors: an undefined or doubly defined symbol, no memory.
Result<std::string> LinkShared(const std::vector<const std::string*>& objects);
// Links with one more object, in the file `data`, and overwrites the file `output`. Holds the output in memory once,
// and no other copy of `data`. Further errors: files that cannot be read or written.
Status LinkSharedFile(const std::vector<const std::string*>& objects, const std::string& data,
                      const std::string& output);

}  // namespace autotune
