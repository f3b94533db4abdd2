// Shows the sandbox of a server's runners, by starting one.
#pragma once
#include <string>
#include <vector>

#include "rpc/sandbox.h"

namespace autotune::rpc {

// Starts a runner with this command line, which enters the sandbox and reports its layers. Blocks for as long as that
// takes: milliseconds on a CPU, seconds with a driver. Returns an error if the runner does not start.
Result<std::vector<SandboxLayer>> ProbeSandbox(std::vector<std::string> runner_command, bool wrapped);

}  // namespace autotune::rpc
