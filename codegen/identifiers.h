// Identifiers for names of the language, which may hold any characters, in sources of the C family and in PTX.
// Thread-safe. Internal to codegen/.
#pragma once
#include <string>

namespace autotune {

// `text` with every character that C does not allow replaced by '_', and one appended where the result is a word of C
// or one that emitted sources use themselves. Distinct texts may give one identifier.
std::string IdentifierOf(const std::string& text);

}  // namespace autotune
