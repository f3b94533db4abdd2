// Products of few rows read constant weights of 16 bits as they are stored, and convert them in their vectors: such a
// product takes as long as its weights need from memory. Other products have weights of f32, which FoldConstants makes,
// since they use each weight many times.
#include <optional>

#include "graph/pass.h"
#include "graph/pass/few_rows.h"
#include "graph/pass/rewriter.h"

namespace autotune::graph {
namespace {

constexpr DType kFloats = DType::Float(32);

class HalfWeightsPass {
 public:
  explicit HalfWeightsPass(const Graph& graph) : graph_(graph), rewriter_(graph) {}

  Graph Run() {
    for (const Node& node : graph_.nodes)
      if (!Rewrite(node)) rewriter_.Copy(node);
    return rewriter_.Finish();
  }

 private:
  bool Rewrite(const Node& node) {
    if (node.op != Op::kMatmul || graph_.Spec(node.output).dtype != kFloats) return false;
    if (!IsOfFewRows(graph_, node) || graph_.Spec(node.inputs[0]).dtype != kFloats) return false;
    // The importer transposes the weights of Gemm behind their conversion.
    const Node* transpose = graph_.Producer(node.inputs[1]);
    const Node* cast = transpose;
    if (transpose && transpose->op == Op::kTranspose) {
      cast = graph_.Producer(transpose->inputs[0]);
    } else {
      transpose = nullptr;
    }
    if (!cast || cast->op != Op::kCast || !graph_.Spec(cast->inputs[0]).dtype.IsHalf()) return false;
    if (!IsOfConstants(graph_, cast->inputs[0])) return false;
    GraphBuilder& b = rewriter_.builder;
    ValueId weights = rewriter_.Map(cast->inputs[0]);
    if (transpose) weights = b.Must(Op::kTranspose, {weights}, transpose->attrs);
    rewriter_.Set(node.output, b.Must(Op::kMatmul, {rewriter_.Map(node.inputs[0]), weights}, {}, node.name));
    return true;
  }

  const Graph& graph_;
  Rewriter rewriter_;
};

}  // namespace

Result<Graph> HalfWeights(const Graph& graph, const PassEnv& env) {
  if (!env.converts_factors) return graph;
  return DropDeadCode(HalfWeightsPass(graph).Run(), env);
}

}  // namespace autotune::graph
