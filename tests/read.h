// Returns the bytes of a file; "" if it cannot be read.
#pragma once
#include <string>

#include "support/file.h"

namespace autotune::test {

inline std::string ReadAll(const std::string& path) {
  Result<std::string> bytes = ReadFile(path);
  return bytes.ok() ? *std::move(bytes) : "";
}

}  // namespace autotune::test
