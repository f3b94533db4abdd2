// Links the objects or C sources of a package with the system's C compiler. Internal to package/.
#pragma once
#include <string>
#include <vector>

#include "support/result.h"

namespace autotune {

// Links the objects, or the sources if there are no objects, and returns the shared object. An error is one line: it
// says that there is no `cc`, or has the first message of `cc`.
Result<std::string> LinkWithCc(const std::vector<std::string>& objects, const std::vector<std::string>& sources);

}  // namespace autotune
