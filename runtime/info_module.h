// The info module: holds the description of a compiled network, as JSON, in the module tree of a shared object. Its
// type key is "autotune.info"; its function get_info() returns the text.
#pragma once
#include <string>

#include "runtime/byte_stream.h"
#include "runtime/module.h"

namespace autotune {

inline constexpr std::string_view kInfoModule = "autotune.info";

Module MakeInfoModule(std::string json);
Result<Module> LoadInfoModule(ByteReader& in);

}  // namespace autotune
