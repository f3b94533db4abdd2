// LibraryFiles: memory files of a runner for the libraries of a session of calls. A runner may make small files only
// (RLIMIT_FSIZE), so it makes these before it sets that limit. They have their full size from the start, but take
// memory only where something is written, through a mapping. A candidate must not find them. Not thread-safe.
#pragma once
#include <vector>

#include "rpc/measure.h"
#include "support/result.h"
#include "support/unique_fd.h"

namespace autotune::rpc {

class LibraryFiles {
 public:
  static constexpr int64_t kMostBytes = 256 << 20;  // of a library [chosen]
  static constexpr int kMost = 4;                   // in a session [chosen]
  static constexpr char kName[] = "autotune-library";

  LibraryFiles() = default;  // none
  // Where the files cannot be made, there are fewer or none.
  static LibraryFiles Make();
  void Close() { files_.clear(); }
  // Returns a file for a library of so many bytes; none for a small one, for which a new file can be made. Errors: the
  // library is too large; all files are taken.
  Result<UniqueFd> Take(int64_t bytes);

 private:
  std::vector<UniqueFd> files_;
};

}  // namespace autotune::rpc
