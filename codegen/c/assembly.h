// Facts about loops, read from a compiler's assembly. Pure functions; thread-safe. Internal to codegen/c.
#pragma once
#include <string>

#include "codegen/codegen.h"

namespace autotune::c {

// Counts the instructions that access a function's stack frame: all, and those in the innermost loops that contain a
// mark (c99.h). These functions keep nothing in their frames but what does not fit into registers. Adds to the facts.
void CountSpills(const std::string& assembly, const std::string& triple, BuildFacts& facts);

}  // namespace autotune::c
