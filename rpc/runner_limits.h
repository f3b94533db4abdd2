// What a runner may use of its host, beside what its sandbox forbids (rpc/sandbox.h).
#pragma once
#include "rpc/runner.h"

namespace autotune::rpc {

void ApplyLimits(const RunnerOptions& options);
// Lets fatal signals end the runner, since the parent reads from the signal what a candidate did. A sanitizer would
// catch the signal and report it as its finding. If a sanitizer traps in the runner's own code, that counts as a crash
// of the candidate.
void LeaveCrashesToTheParent();

}  // namespace autotune::rpc
