// Seals: a seal is a hash of a library's file. It is appended to the file, where the dynamic loader ignores it. A
// damaged file is refused because of its seal, before damaged code can crash the process. Stateless, thread-safe.
#pragma once
#include <string>
#include <string_view>

#include "support/result.h"

namespace autotune {

// Returns the seal that is appended to `library`: 8 bytes of a magic text, then the 128 bits of XXH3, little-endian,
// the low half first.
std::string SealOf(std::string_view library);

// Returns an error if a file has a seal that does not match its bytes. A file without a seal passes, since linkers and
// tools such as strip write none.
Status CheckSeal(std::string_view file);

}  // namespace autotune
