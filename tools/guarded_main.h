// Catches a failed CHECK in rpc_server and rpc_tracker, and ends the program with a line and an exit code.
#pragma once
#include "support/check.h"
#include "tools/error_lines.h"

namespace autotune::tools {

constexpr int kExitBug = 70;  // EX_SOFTWARE of sysexits.h

// Returns the result of `run`. If a CHECK fails in `run`, prints the reason and returns kExitBug.
template <class Run>
int Guarded(const Run& run) {
  try {
    return run();
  } catch (const InternalError& error) {
    return PrintError(Err(error.what()), kExitBug);
  }
}

}  // namespace autotune::tools
