// Measures a row of the table of machines (target/machine.h) on this host, for `autotune doctor --probe`.
#pragma once
#include <string>

#include "codegen/builder.h"
#include "support/result.h"
#include "target/machine.h"

namespace autotune::tools {

// Measures one core, and the fork and join of a region on all cores of the target. The target must be this host's.
// Values that cannot be measured (loop registers, the cost of a task) are copied from the CPU's row of the table. Takes
// a few seconds. Each measurement holds the host lock if it gets the lock within `patience_ms`. Returns an error if a
// build fails or memory runs out.
Result<Machine> ProbeMachine(const Target& target, Builder& builder, int patience_ms);

// Returns the row in the notation of target/machine.cc, with LLVM's name of the CPU. Each number has a line of its own,
// with its source.
std::string MachineRowText(const Target& target, const Machine& machine);

}  // namespace autotune::tools
