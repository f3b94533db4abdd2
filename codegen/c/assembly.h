// Facts about loops, read from a compiler's assembly. Pure functions; thread-safe. Internal to codegen/c.
#pragma once
#include <string>

#include "codegen/codegen.h"

namespace autotune::c {

// Counts the spills in `assembly` and adds them to `facts`: all spills, and those in the innermost loops that contain a
// mark (kLoopMark in c99.h). A spill is an instruction that accesses the stack frame, since emitted functions keep only
// spilled values there.
void CountSpills(const std::string& assembly, const std::string& triple, BuildFacts& facts);

}  // namespace autotune::c
