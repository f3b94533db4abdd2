// For tests: checks PTX with NVIDIA's assembler, if it is on the PATH. Header-only.
#pragma once
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "tests/codegen/c_compiler.h"

namespace autotune::test {

inline bool HavePtxas() {
  static const bool have = [] {
    std::istringstream folders(getenv("PATH") ? getenv("PATH") : "");
    for (std::string folder; std::getline(folders, folder, ':');) {
      if (access((folder + "/ptxas").c_str(), X_OK) == 0) return true;
    }
    printf("ptxas is not on the PATH: the checks that need it are skipped\n");
    return false;
  }();
  return have;
}

// Returns the errors and warnings of ptxas; "" if there are none or if ptxas is not installed.
inline std::string PtxasComplaint(const std::string& ptx, const std::string& arch) {
  if (!HavePtxas()) return "";
  const Folder folder;
  return ComplaintOf({"ptxas", "-arch=" + arch, "--warning-as-error", "--warn-on-spills",
                      "--warn-on-local-memory-usage", "-o", folder.path("out.cubin"), folder.Write("in.ptx", ptx)});
}

}  // namespace autotune::test
