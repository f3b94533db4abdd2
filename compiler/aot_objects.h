// Edits relocatable objects and makes archives of them. Stateless. Internal to compiler/.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "support/result.h"

namespace autotune {

// Puts `prefix` before the name of each global symbol of a relocatable object, defined or not, and hides it from other
// programs and libraries. So kernels of several networks can be linked into one program. Errors: not a relocatable
// object of 64 bits, little-endian, or a damaged one.
Result<std::string> PrefixSymbols(std::string object, std::string_view prefix);

// Returns an archive (`ar`) of one object, whose index has these symbols. Without times and owners, so that equal
// objects give equal archives.
std::string ArchiveOf(const std::string& member, const std::string& object, const std::vector<std::string>& symbols);

}  // namespace autotune
