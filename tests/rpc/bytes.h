// For tests: makes a blob from a literal.
#pragma once
#include <memory>
#include <string>

#include "rpc/measure.h"

namespace autotune::rpc {

inline Blob Bytes(std::string s) { return MakeBlob(std::move(s)); }

}  // namespace autotune::rpc
