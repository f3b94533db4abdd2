#include "graph/step_factors.h"

#include <algorithm>

#include "graph/pass/rewriter.h"

namespace autotune::graph {

std::optional<Graph> WithStepFactors(const Graph& graph) {
  const auto is_step = [&](const Node& node) {
    return node.op == Op::kRound && graph.Spec(node.output).dtype == DType::Float(32) &&
           !IsOfConstants(graph, node.inputs[0]);
  };
  const int64_t steps = std::ranges::count_if(graph.nodes, is_step);
  const bool is_taken =
      std::ranges::any_of(graph.inputs, [&](ValueId v) { return graph.values[v].name == kStepFactors; });
  if (steps == 0 || is_taken) return std::nullopt;
  Rewriter rewriter(graph);
  GraphBuilder& b = rewriter.builder;
  const ValueId factors = b.Input(std::string(kStepFactors), {DType::Float(32), {steps}});
  int64_t step = 0;
  for (const Node& node : graph.nodes) {
    if (!is_step(node)) {
      rewriter.Copy(node);
      continue;
    }
    const ValueId factor = b.Reshape(b.Must(Op::kSlice, {factors}, SliceAttrs{{step++}, {1}, {1}}), {});
    const ValueId moved = b.Must(Op::kMul, {rewriter.Map(node.inputs[0]), factor});
    rewriter.Set(node.output, b.Must(Op::kRound, {moved}, {}, node.name));
  }
  return rewriter.Finish();
}

}  // namespace autotune::graph
