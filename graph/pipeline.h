// The way from an imported graph to fused kernels. Thread-safe (one PassContext per call).
#pragma once
#include "graph/pass.h"

namespace autotune::graph {

const std::vector<Pass>& Pipeline();

// Runs the pipeline: the result has kFused and kReshape nodes only.
Result<Graph> Optimize(const Graph& graph, PassContext& context);

}  // namespace autotune::graph
