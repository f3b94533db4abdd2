// Links the objects or C sources of a network with a C compiler.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "support/result.h"

namespace autotune {

// Links the objects, or the sources if there are no objects, and returns the shared object. An error is one line: it
// says that there is no `cc`, or has the first message of `cc`.
Result<std::string> LinkWithCc(const std::vector<std::string>& objects, const std::vector<std::string>& sources);

// Compiles and links files (name and bytes) into one relocatable object: those whose names end in .c and .o. The others
// are headers. `compiler` is the command of a C compiler. Errors as above.
Result<std::string> LinkRelocatable(const std::string& compiler,
                                    const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace autotune
