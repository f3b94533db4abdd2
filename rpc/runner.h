// The runner: the child process that loads artifacts and runs them, one candidate at a time. It is controlled through a
// socket pair by its parent, the device server. It may crash or hang at any moment, and the parent then replaces it.
// Single-threaded but for the kernels' thread pool and a thread that ends the process when the parent is gone.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/tensor.h"

namespace autotune::rpc {

inline constexpr int kRunnerDescriptor = 3;  // the runner's end of the socket pair

struct RunnerOptions {
  std::vector<int> cores;         // to run on; empty: all
  int64_t memory_bytes = 0;       // limit of the process's data; 0: none. Only of runners on the CPU
  DLDevice device = {kDLCPU, 0};  // that kernels run on
};
// Runs until the parent closes its end; the exit code of the process.
int RunRunner(const RunnerOptions& options);

}  // namespace autotune::rpc
