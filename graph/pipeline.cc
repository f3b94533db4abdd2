#include "graph/pipeline.h"

#include <chrono>

namespace autotune::graph {

const std::vector<Pass>& Pipeline() {
  static const std::vector<Pass> passes = {
      {"drop_dead_code", DropDeadCode},
      {"fold_batch_norm", FoldBatchNorm},
      {"convert_layout", ConvertLayout},
      {"trim_windows", TrimWindows},
      {"simplify", Simplify},
      {"sink_reshapes", SinkReshapes},
      {"share_common_subexpressions", ShareCommonSubexpressions},
      {"fold_constants", FoldConstants},
      {"share_common_subexpressions", ShareCommonSubexpressions},
      {"drop_dead_code", DropDeadCode},
      {"fuse", Fuse},
  };
  return passes;
}

Result<Graph> RunPasses(Graph graph, const std::vector<Pass>& passes, PassContext& context) {
  for (const Pass& pass : passes) {
    if (context.disabled.count(std::string(pass.name))) continue;
    auto start = std::chrono::steady_clock::now();
    std::string where = "in graph pass " + std::string(pass.name);
    graph = TRY_NOTE(pass.run(graph, context), where);
    context.times_ms[std::string(pass.name)] +=
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    Status valid = CheckGraph(graph);
    CHECK(valid.ok()) << where << ": " << valid.error().Text();
    if (context.after) context.after(pass.name, graph);
  }
  return graph;
}

Result<Graph> Optimize(const Graph& graph, PassContext& context) { return RunPasses(graph, Pipeline(), context); }

}  // namespace autotune::graph
