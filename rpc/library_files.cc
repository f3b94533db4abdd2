#include "rpc/library_files.h"

#include <sys/mman.h>
#include <unistd.h>

#include "rpc/runner.h"

namespace autotune::rpc {

LibraryFiles LibraryFiles::Make() {
  LibraryFiles made;
  for (int i = 0; i < kMost; ++i) {
    UniqueFd file(memfd_create(kName, MFD_CLOEXEC));
    if (!file || ftruncate(file.get(), kMostBytes)) break;
    made.files_.push_back(std::move(file));
  }
  return made;
}

Result<UniqueFd> LibraryFiles::Take(int64_t bytes) {
  if (bytes <= kRunnerFileBytes) return UniqueFd();
  if (bytes > kMostBytes)
    return Err("the library has ", bytes, " bytes; a device of a farm loads at most ", kMostBytes);
  if (files_.empty())
    return Err("a session on a device of a farm loads at most ", kMost, " libraries of more than ", kRunnerFileBytes,
               " bytes");
  UniqueFd file = std::move(files_.back());
  files_.pop_back();
  return file;
}

}  // namespace autotune::rpc
