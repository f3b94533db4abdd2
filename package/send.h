// What a device of a farm needs of a compiled network. Stateless, thread-safe.
#pragma once
#include <string>

#include "package/package.h"
#include "support/result.h"

namespace autotune {

struct SentPackage {
  std::string library, graph_json, params;  // as rpc::NetworkParts
  PackageInfo info;                         // empty if the library has it
  bool linked_here = false;                 // the library was linked for this machine
};

// The second one reads a file of either form. Errors: those of ReadPackage, and of linking a package that has no
// library.
Result<SentPackage> PackageToSend(Package package);
Result<SentPackage> PackageToSend(const std::string& path);

}  // namespace autotune
