#include <algorithm>
#include <unordered_map>

#include "graph/pass.h"
#include "graph/pass/rewriter.h"

namespace autotune::graph {

Result<Graph> ShareCommonSubexpressions(const Graph& graph, const PassEnv& env) {
  const int64_t compared = env.context.Get(kSharedConstantElements);
  Rewriter rewriter(graph);
  std::unordered_map<std::string, ValueId> seen;
  for (const Constant& c : graph.constants) {
    if (!c.data) continue;
    std::string key = "constant " + graph.Spec(c.value).Text() + " ";
    if (graph.Spec(c.value).NumElements() <= compared) {
      key += c.data.view();
    } else {
      key += "at " + std::to_string(reinterpret_cast<uintptr_t>(c.data.data()));
    }
    auto [it, is_new] = seen.try_emplace(std::move(key), 0);
    if (is_new) {
      it->second = rewriter.Map(c.value);
    } else {
      rewriter.Set(c.value, it->second);
    }
  }
  for (const Node& node : graph.nodes) {
    if (IsCall(node)) {
      rewriter.Copy(node);
      continue;
    }
    std::vector<ValueId> inputs = rewriter.MapAll(node.inputs);
    if (GetOpInfo(node.op).commutative) std::sort(inputs.begin(), inputs.end());
    std::string key = std::string(ToText(node.op)) + " " + AttrsText(node.attrs);
    for (ValueId v : inputs) key += " %" + std::to_string(v);
    auto [it, is_new] = seen.try_emplace(std::move(key), 0);
    if (is_new) {
      rewriter.Copy(node);
      it->second = rewriter.Map(node.output);
    } else {
      rewriter.Set(node.output, it->second);
    }
  }
  return DropDeadCode(rewriter.Finish(), env);
}

}  // namespace autotune::graph
