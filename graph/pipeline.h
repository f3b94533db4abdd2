// The pipeline of graph passes, from an imported module to fused kernels. Thread-safe.
#pragma once
#include "graph/module.h"
#include "graph/pass.h"

namespace autotune::graph {

const std::vector<Pass>& Pipeline();
// The passes and options of the pipeline.
const PassTable& GraphPassTable();

// Runs the passes in order, each on all graph functions of the module, with the instruments around it; checks the
// module after each. An error names the pass.
Result<IRModule> RunPasses(IRModule module, const std::vector<Pass>& passes, const PassEnv& env);

// Runs the pipeline: the result's graph functions have kFused, kReshape and kCall nodes only.
Result<IRModule> Optimize(const IRModule& module, const PassEnv& env = {});

}  // namespace autotune::graph
