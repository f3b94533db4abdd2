// Turns names of IR programs, which may contain any characters, into identifiers for C, OpenCL C and PTX. Thread-safe.
// Internal to codegen/.
#pragma once
#include <string>

namespace autotune {

// Returns `text` with '_' in place of every character that C does not allow. Appends another '_' if the result is a
// reserved word or a name that emitted sources use themselves. Distinct texts may give one identifier.
std::string IdentifierOf(const std::string& text);

}  // namespace autotune
