// The hash that names bytes which come from others: nobody can make other bytes with the same hash.
#pragma once
#include <string>
#include <string_view>

namespace autotune::rpc {

// BLAKE2b with 256 bits, as 64 lower-case hexadecimal digits (RFC 7693). Thread-safe.
std::string ContentHash(std::string_view bytes);

}  // namespace autotune::rpc
