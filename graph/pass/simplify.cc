#include <algorithm>
#include <cmath>
#include <optional>

#include "graph/pass.h"
#include "graph/pass/rewriter.h"

namespace autotune::graph {
namespace {

// Returns c if the node is x / c, where c is one number with a normal reciprocal.
std::optional<float> ConstantDivisor(const Graph& graph, const Node& node) {
  if (node.op != Op::kDiv || graph.FindConstant(node.inputs[0])) return std::nullopt;
  const Constant* c = graph.FindConstant(node.inputs[1]);
  if (!c || !c->data || graph.Spec(c->value).dtype != DType::Float(32) || graph.Spec(c->value).NumElements() != 1)
    return std::nullopt;
  float value = *graph.ConstantValue(*c).As<float>();
  if (!std::isnormal(value) || !std::isnormal(1 / value)) return std::nullopt;
  return value;
}

}  // namespace

Result<Graph> SimplifyGraph(const Graph& graph, const PassEnv& env) {
  Rewriter rewriter(graph);
  GraphBuilder& b = rewriter.builder;
  // Marks the values that an operator with steps, such as floor, depends on: a rounding error could change its result
  // by a whole step.
  std::vector<bool> exact(graph.values.size(), false);
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    constexpr Op kSteps[] = {Op::kFloor, Op::kCeil, Op::kRound, Op::kCast, Op::kEqual, Op::kLess, Op::kLessEqual};
    bool step = std::find(std::begin(kSteps), std::end(kSteps), node->op) != std::end(kSteps);
    if (!step && !exact[node->output]) continue;
    for (ValueId v : node->inputs) exact[v] = true;
  }
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
    } else if (auto divisor = ConstantDivisor(graph, node); divisor && !exact[node.output]) {
      // A multiplication takes a fraction of the time of a division, but rounds once more.
      ValueId factor = b.AddConstant("", TensorValue::Scalar(1 / *divisor));
      factor = b.Reshape(factor, graph.Spec(node.inputs[1]).shape);
      rewriter.Set(node.output, b.Must(Op::kMul, {rewriter.Map(node.inputs[0]), factor}, {}, node.name));
    } else {
      rewriter.Copy(node);
    }
  }
  // Bypassed nodes may be dead now.
  return DropDeadCode(rewriter.Finish(), env);
}

}  // namespace autotune::graph
