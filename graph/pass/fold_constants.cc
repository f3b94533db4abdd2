#include "graph/pass.h"
#include "graph/pass/rewriter.h"

namespace autotune::graph {

Result<Graph> FoldConstants(const Graph& graph, const PassEnv& env) {
  std::vector<bool> constant(graph.values.size(), false), wanted(graph.values.size(), false);
  for (const Constant& c : graph.constants) constant[c.value] = static_cast<bool>(c.data);
  for (const Node& node : graph.nodes) {
    bool all = node.op != Op::kCall;  // the evaluator gets no module
    for (ValueId v : node.inputs) all = all && constant[v];
    constant[node.output] = all;
  }
  // Builds a graph of all constant nodes. Its outputs are the constant results that other nodes read or that `graph`
  // returns.
  for (const Node& node : graph.nodes) {
    if (constant[node.output]) continue;
    for (ValueId v : node.inputs) wanted[v] = constant[v];
  }
  for (ValueId v : graph.outputs) wanted[v] = constant[v];
  Graph work = graph;
  work.inputs.clear();
  work.outputs.clear();
  work.output_names.clear();
  work.nodes.clear();
  std::vector<ValueId> results;
  for (const Node& node : graph.nodes) {
    if (!constant[node.output]) continue;
    work.values[node.output].index = static_cast<int32_t>(work.nodes.size());
    work.nodes.push_back(node);
    if (wanted[node.output]) {
      results.push_back(node.output);
      work.outputs.push_back(node.output);
      work.output_names.push_back(graph.values[node.output].name);
    }
  }
  if (results.empty() || !env.evaluate) return graph;
  work = TRY(DropDeadCode(work, env));
  std::vector<TensorValue> values = TRY_NOTE(env.evaluate(work), "while folding constants");
  CHECK(values.size() == results.size());

  Rewriter rewriter(graph);
  for (size_t i = 0; i < results.size(); ++i) {
    CHECK(values[i].spec == graph.Spec(results[i]))
        << values[i].spec.Text() << ", expected " << graph.Spec(results[i]).Text();
    rewriter.Set(results[i], rewriter.builder.AddConstant(graph.values[results[i]].name, std::move(values[i])));
  }
  for (const Node& node : graph.nodes) {
    if (!constant[node.output]) rewriter.Copy(node);
  }
  return rewriter.Finish();
}

}  // namespace autotune::graph
