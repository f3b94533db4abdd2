// Catches a failed CHECK in rpc_server and rpc_tracker, and ends the program with a line and an exit code.
#pragma once
#include <cstdio>

#include "support/check.h"

namespace autotune::tools {

constexpr int kExitBug = 70;  // EX_SOFTWARE of sysexits.h

// Returns the result of `run`. If a CHECK fails in `run`, prints the reason after the program's name and returns
// kExitBug.
template <class Run>
int Guarded(const char* program, const Run& run) {
  try {
    return run();
  } catch (const InternalError& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return kExitBug;
  }
}

}  // namespace autotune::tools
