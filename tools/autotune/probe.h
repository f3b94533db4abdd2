// Measures a row of the table of machines (target/machine.h) on this host, for `autotune doctor --probe`.
#pragma once
#include <functional>
#include <set>
#include <string>

#include "codegen/builder.h"
#include "support/result.h"
#include "target/machine.h"

namespace autotune::tools {

struct ProbedMachine {
  Machine machine;
  std::set<std::string, std::less<>> copied;  // fields whose values come from the CPU's row of the table
};

// Measures one core in this process, and a fork and join on all cores of the target. The target must be this host's.
// Copies from the table what no measurement finds (general registers, the cost of a task) and what this host lacks or
// does not report (a fork with one core, a cache level, the ways of a cache). Takes a few seconds. Each measurement
// holds the host lock if it gets the lock within `patience_ms`. Returns an error if a build fails or memory runs out.
Result<ProbedMachine> ProbeMachine(const Target& target, Builder& builder, int patience_ms);

// Returns the row in the notation of target/machine.cc, with LLVM's name of the CPU. Each number has a line of its own,
// with its source.
std::string MachineRowText(const Target& target, const ProbedMachine& probed);

}  // namespace autotune::tools
