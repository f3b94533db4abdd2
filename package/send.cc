#include "package/send.h"

#include "package/load.h"
#include "support/file.h"

namespace autotune {

Result<SentPackage> PackageToSend(Package package) {
  SentPackage sent;
  sent.linked_here = package.library.empty();
  sent.library = TRY(LibraryBytesOf(package));
  sent.graph_json = std::move(package.graph_json);
  sent.params = std::move(package.params);
  sent.info = std::move(package.info);
  return sent;
}

Result<SentPackage> PackageToSend(const std::string& path) {
  if (!TRY(IsSharedObject(path))) return PackageToSend(TRY(ReadPackage(path)));
  SentPackage sent;
  sent.library = TRY(ReadFile(path));
  return sent;
}

}  // namespace autotune
