#include "graph/pass.h"
#include "graph/pass/rewriter.h"

namespace autotune::graph {

Result<Graph> DropDeadCode(const Graph& graph, const PassEnv&) {
  std::vector<bool> live(graph.values.size(), false);
  for (ValueId v : graph.outputs) live[v] = true;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (!live[node->output]) continue;
    for (ValueId v : node->inputs) live[v] = true;
  }
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes) {
    if (live[node.output]) rewriter.Copy(node);
  }
  return rewriter.Finish();
}

}  // namespace autotune::graph
