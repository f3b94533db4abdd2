// The last door of the programs of the farm: one of our own bugs becomes a line and an exit code.
#pragma once
#include <cstdio>

#include "support/check.h"

namespace autotune::tools {

constexpr int kExitBug = 70;  // EX_SOFTWARE of sysexits.h

// Returns what `run` returns; kExitBug, and prints why after the program's name, if a CHECK failed in it.
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
