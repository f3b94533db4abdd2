// The info module: what a compiled network says of itself, as JSON, in the module tree of a shared object. It has no
// code. Its type key is "autotune.info"; its function get_info() returns the text.
#pragma once
#include <string>

#include "runtime/byte_stream.h"
#include "runtime/module.h"

namespace autotune {

inline constexpr std::string_view kInfoModule = "autotune.info";

Module MakeInfoModule(std::string json);
Result<Module> LoadInfoModule(ByteReader& in);

}  // namespace autotune
