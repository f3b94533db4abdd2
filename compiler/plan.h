// Plan: from a fused graph and the names of its kernels to what the executor runs. Internal to compiler/. Stateless.
#pragma once
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/graph_json.h"
#include "runtime/params.h"

namespace autotune {

struct ExecutionPlan {
  Graph graph;    // variables: the inputs under their names, then the constants
  Params params;  // the constants
  int64_t workspace_bytes = 0, constants_bytes = 0, io_bytes = 0;
};

// `kernel_of_node`: the function of each node of `fused`; ignored for reshapes.
Result<ExecutionPlan> MakePlan(const graph::Graph& fused, const std::vector<std::string>& kernel_of_node);

}  // namespace autotune
