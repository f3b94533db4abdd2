// TimeVariants: times the kernels of a network whose tasks can each run one of several kernels. The final choice
// (compiler/choose.h) compares kernels by it where they run: among the other kernels of the network. Stateless.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "runtime/graph_executor.h"
#include "support/fields.h"

namespace autotune {

// A task of a network: the nodes of the executor's graph that run it, and the kernels that can.
struct TaskVariants {
  std::vector<int64_t> nodes;
  std::vector<std::string> kernels;  // names of functions with equal parameters
  AUTOTUNE_FIELDS(nodes, kernels)
};

// Runs the network with one kernel for each task, for some milliseconds (a visit). `variants` are the indices of the
// kernels. `serial`: kernels of the host run on the calling thread alone. Returns the seconds of each task: the sum of
// the median times of its nodes. The executor must be replaceable. Errors: an index or node that does not exist; those
// of ReplaceKernel and of the kernels.
Result<std::vector<double>> TimeVariants(GraphExecutor& executor, const std::vector<TaskVariants>& tasks,
                                         std::span<const int64_t> variants, bool serial);

}  // namespace autotune
