#include "graph/step_moves.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "graph/pass/rewriter.h"

namespace autotune::graph {
namespace {

constexpr DType kFloats = DType::Float(32);

bool IsStep(const Graph& graph, const Node& node) {
  return node.op == Op::kRound && !IsOfConstants(graph, node.inputs[0]);
}

double RoundoffOf(DType type) { return type == DType::BFloat16() ? 0x1p-8 : type.IsHalf() ? 0x1p-11 : 0x1p-24; }

// Returns the largest roundoff among the types from which element-wise operations compute the value.
double RoundoffBefore(const Graph& graph, ValueId v) {
  std::set<ValueId> seen = {v};
  std::vector<ValueId> pending = {v};
  double roundoff = 0;
  while (!pending.empty()) {
    const ValueId next = pending.back();
    pending.pop_back();
    if (graph.FindConstant(next)) continue;
    roundoff = std::max(roundoff, RoundoffOf(graph.Spec(next).dtype));
    const Node* node = graph.Producer(next);
    if (!node || node->op == Op::kRound || KindOf(node->op) != OpKind::kElementwise) continue;
    for (const ValueId input : node->inputs)
      if (seen.insert(input).second) pending.push_back(input);
  }
  return roundoff;
}

}  // namespace

std::optional<Graph> WithStepMoves(const Graph& graph) {
  const int64_t steps = std::ranges::count_if(graph.nodes, [&](const Node& node) { return IsStep(graph, node); });
  if (steps == 0) return std::nullopt;
  std::string name = "step_moves";
  while (std::ranges::any_of(graph.inputs, [&](ValueId v) { return graph.values[v].name == name; })) name += "_";
  Rewriter rewriter(graph);
  GraphBuilder& b = rewriter.builder;
  const auto number = [&](double x) { return b.AddConstant("", TensorValue::FromNumbers(kFloats, {}, {x})); };
  const ValueId moves = b.Input(name, {kFloats, {steps}});
  int64_t step = 0;
  for (const Node& node : graph.nodes) {
    if (!IsStep(graph, node)) {
      rewriter.Copy(node);
      continue;
    }
    const ValueId x = node.inputs[0], move = b.Reshape(b.Must(Op::kSlice, {moves}, SliceAttrs{{step++}, {1}, {1}}), {});
    ValueId factor = b.Must(Op::kAdd, {b.Must(Op::kMul, {move, number(RoundoffBefore(graph, x))}), number(1)});
    const DType type = graph.Spec(x).dtype;
    if (type != kFloats) factor = b.Must(Op::kCast, {factor}, CastAttrs{type});
    rewriter.Set(node.output, b.Must(Op::kRound, {b.Must(Op::kMul, {rewriter.Map(x), factor})}, {}, node.name));
  }
  return rewriter.Finish();
}

}  // namespace autotune::graph
