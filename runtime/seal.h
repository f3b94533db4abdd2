// Seals: a hash of a library's file, appended behind the last byte that the dynamic loader maps. A damaged file is then
// refused, instead of crashing in damaged code. Stateless, thread-safe.
#pragma once
#include <string>
#include <string_view>

#include "support/result.h"

namespace autotune {

// Returns the seal that is appended to `library`: 8 bytes of a magic text, then the 128 bits of XXH3, little-endian,
// the low half first.
std::string SealOf(std::string_view library);

// Checks a file that ends with a seal. Any other file passes: linkers and tools like strip write none.
Status CheckSeal(std::string_view file);

}  // namespace autotune
