// Measures a row of the table of machines (target/machine.h) on this host, for `autotune doctor --probe`.
#pragma once
#include <string>

#include "codegen/builder.h"
#include "support/result.h"
#include "target/machine.h"

namespace autotune::tools {

// Measures one core in this process, and a fork and join on all cores of the target, which must be this host's. What no
// measurement tells (general registers, the cost of a task) is that of the table's row. Takes a few seconds, alone on
// this host if its lock can be had within `patience_ms`. Errors: as of builds; no memory.
Result<Machine> ProbeMachine(const Target& target, Builder& builder, int patience_ms);

// The row as target/machine.cc has it, with the CPU's name by LLVM, each number on a line with its source.
std::string MachineRowText(const Target& target, const Machine& machine);

}  // namespace autotune::tools
