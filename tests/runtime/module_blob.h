// Module trees as bytes in memory. For tests and fuzz targets.
#pragma once
#include "runtime/module_blob.h"

namespace autotune::test {

inline Result<std::string> ModuleBlob(const Module& root) {
  ByteWriter out;
  TRY(WriteModuleBlob(root, out));
  return out.Take();
}

// The contents of the symbol: the length, then the blob.
inline std::string ModuleBlobSymbol(const std::string& blob) {
  ByteWriter out;
  out.Text(blob);
  return out.Take();
}

}  // namespace autotune::test
