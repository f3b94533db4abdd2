// Links the objects or C sources of a package with the system's C compiler. Internal to package/.
#pragma once
#include <string>
#include <vector>

#include "support/result.h"

namespace autotune {

// Returns the shared object. Uses the objects if there are any, else the sources. Errors, in one line each: there is no
// `cc`, or what it says first.
Result<std::string> LinkWithCc(const std::vector<std::string>& objects, const std::vector<std::string>& sources);

}  // namespace autotune
