// For tests and fuzz targets: module trees as bytes in memory.
#pragma once
#include "runtime/module_blob.h"

namespace autotune::test {

inline Result<std::string> ModuleBlob(const Module& root) {
  ByteWriter out;
  TRY(WriteModuleBlob(root, out));
  return out.Take();
}

// Returns the contents of the symbol: the length, then the blob.
inline std::string ModuleBlobSymbol(const std::string& blob) {
  ByteWriter out;
  out.Text(blob);
  return out.Take();
}

}  // namespace autotune::test
