// The version of autotune.
#pragma once
#include <string>

namespace autotune::tools {

// Returns the version of the program, and on a second line the versions of the formats that it stores and sends.
std::string VersionText();

}  // namespace autotune::tools
