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

// Returns the errors and warnings of ptxas; "" if there are none or if ptxas is not installed. For an architecture that
// this ptxas no longer assembles for, it assembles for sm_75, as a driver does for a newer GPU.
inline std::string PtxasComplaint(const std::string& ptx, const std::string& arch) {
  if (!HavePtxas()) return "";
  const Folder folder;
  const std::string complaint =
      ComplaintOf({"ptxas", "-arch=" + arch, "--warning-as-error", "--warn-on-spills", "--warn-on-local-memory-usage",
                   "-o", folder.path("out.cubin"), folder.Write("in.ptx", ptx)});
  const bool dropped = complaint.find("is not defined for option 'gpu-name'") != std::string::npos;
  return dropped && arch == "sm_70" ? PtxasComplaint(ptx, "sm_75") : complaint;
}

}  // namespace autotune::test
