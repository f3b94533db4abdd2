// `rpc_server doctor`: shows the layers of the sandbox.
#pragma once
#include <string>
#include <vector>

namespace autotune::tools {

// Starts a runner with this command line, and prints one line for each layer of its sandbox: its name, "on" or "off",
// and what holds or why it is off. Returns the exit code: 1 if the runner does not start, or if `strict` and a layer is
// off.
int ShowSandbox(const std::vector<std::string>& runner_command, bool wrapped, bool strict);

}  // namespace autotune::tools
