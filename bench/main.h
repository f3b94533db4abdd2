// Functions that the main functions of benches share.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/result.h"

namespace autotune::bench {

// Makes the library start the programs (build workers, device servers) of the build tree, whose folder lies beside that
// of this program. AUTOTUNE_LIBEXEC, if set, names another folder.
inline void UseProgramsOfBuildTree() {
  const std::filesystem::path tools =
      std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "tools";
  setenv("AUTOTUNE_LIBEXEC", tools.c_str(), 0);
}

// Returns the exit code of the program `name`. Prints the error if there is one.
inline int ExitCode(const char* name, const Result<int>& done) {
  if (done.ok()) return *done;
  std::fprintf(stderr, "%s: %s\n", name, done.error().Text().c_str());
  return 1;
}

}  // namespace autotune::bench
