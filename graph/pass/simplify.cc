#include "graph/pass.h"
#include "graph/pass/rewriter.h"

namespace autotune::graph {

Result<Graph> Simplify(const Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  GraphBuilder& b = rewriter.builder;
  for (const Node& node : graph.nodes) {
    if (node.op == Op::kReshape) {
      ValueId x = rewriter.Map(node.inputs[0]);
      for (const Node* p = b.graph().Producer(x); p && p->op == Op::kReshape; p = b.graph().Producer(x))
        x = p->inputs[0];
      rewriter.Set(node.output, b.Reshape(x, graph.Spec(node.output).shape, node.name));
    } else if (node.op == Op::kTranspose) {
      ValueId x = rewriter.Map(node.inputs[0]);
      std::vector<int64_t> perm = std::get<TransposeAttrs>(node.attrs).perm;
      if (const Node* p = b.graph().Producer(x); p && p->op == Op::kTranspose) {
        const auto& inner = std::get<TransposeAttrs>(p->attrs).perm;
        for (int64_t& axis : perm) axis = inner[axis];
        x = p->inputs[0];
      }
      rewriter.Set(node.output, b.Transpose(x, perm, node.name));
    } else {
      rewriter.Copy(node);
    }
  }
  // What was bypassed may be dead now.
  return DropDeadCode(rewriter.Finish(), context);
}

}  // namespace autotune::graph
