// Products of bf16. ROUND_PRODUCTS and BF16_PRODUCTS are two passes, since networks of bf16 need the second one only:
//
//   round_products (if allowed):      conv(x, w)            ->  conv(f32(bf16(x)), f32(bf16(w)))
//   bf16_products:                    conv(f32(a), f32(b))  ->  conv(a, b), with sums of f32
//
// The second one keeps the exact value of each product. Rounding is for what becomes faster: everything that the target
// multiplies as bf16, and the weights of products of few rows, which HalfWeights takes.
#include <algorithm>
#include <map>

#include "graph/pass.h"
#include "graph/pass/centered.h"
#include "graph/pass/few_rows.h"
#include "graph/pass/rewriter.h"

namespace autotune::graph {
namespace {

const DType kBf16 = DType::BFloat16(), kFloats = DType::Float(32);

// Returns whether the product has constant weights, and sums that dot products of bf16 compute.
bool Suits(const Graph& graph, const Node& node) {
  const auto* conv = std::get_if<ConvAttrs>(&node.attrs);
  if (node.op != Op::kMatmul && !(conv && conv->layout == Layout::kNHWC && conv->groups == 1)) return false;
  return graph.Spec(node.output).dtype == kFloats && NeighboursOf(graph, node) % DotGroup(kBf16) == 0 &&
         TermsOf(graph, node) >= kFewestTerms;
}

class RoundProductsPass {
 public:
  RoundProductsPass(const Graph& graph, const PassEnv& env) : graph_(graph), env_(env), rewriter_(graph) {}

  Graph Run() {
    for (const Node& node : graph_.nodes) {
      const bool few_rows = IsOfFewRows(graph_, node);
      const bool gains = few_rows ? env_.converts_factors : env_.multiplies_bf16 && Suits(graph_, node);
      if (!gains || !IsOfConstants(graph_, node.inputs[1]) || !IsOfFloats(node)) {
        rewriter_.Copy(node);
        continue;
      }
      const std::vector<ValueId> rounded = {few_rows ? rewriter_.Map(node.inputs[0]) : Rounded(node.inputs[0]),
                                            Rounded(node.inputs[1])};
      rewriter_.Set(node.output, rewriter_.builder.Must(node.op, rounded, node.attrs, node.name));
    }
    return rewriter_.Finish();
  }

 private:
  bool IsOfFloats(const Node& node) const {
    return std::ranges::all_of(node.inputs, [&](ValueId v) { return graph_.Spec(v).dtype == kFloats; });
  }

  // Rounds a value once for all products that read it.
  ValueId Rounded(ValueId v) {
    const auto [it, is_new] = rounded_.try_emplace(v, -1);
    if (!is_new) return it->second;
    GraphBuilder& b = rewriter_.builder;
    const ValueId half = b.Must(Op::kCast, {rewriter_.Map(v)}, CastAttrs{kBf16});
    return it->second = b.Must(Op::kCast, {half}, CastAttrs{kFloats});
  }

  const Graph& graph_;
  const PassEnv& env_;
  Rewriter rewriter_;
  std::map<ValueId, ValueId> rounded_;
};

class Bf16ProductsPass {
 public:
  explicit Bf16ProductsPass(const Graph& graph) : graph_(graph), rewriter_(graph) {}

  Graph Run() {
    for (const Node& node : graph_.nodes)
      if (!Rewrite(node)) rewriter_.Copy(node);
    return rewriter_.Finish();
  }

 private:
  bool Rewrite(const Node& node) {
    if (!Suits(graph_, node) || !IsOfConstants(graph_, node.inputs[1])) return false;
    if (!IsWidened(node.inputs[0]) || !IsWidened(node.inputs[1])) return false;
    const std::vector<ValueId> halves = {Half(node.inputs[0]), Half(node.inputs[1])};
    rewriter_.Set(node.output, rewriter_.builder.Must(node.op, halves, node.attrs, node.name));
    return true;
  }

  // Returns whether the value is a conversion of bf16, or a view of one.
  bool IsWidened(ValueId v) const {
    const Node* node = graph_.Producer(v);
    if (!node) return false;
    if (node->op == Op::kCast) return graph_.Spec(v).dtype == kFloats && graph_.Spec(node->inputs[0]).dtype == kBf16;
    const bool is_view = node->op == Op::kReshape || node->op == Op::kTranspose || node->op == Op::kSlice;
    return is_view && IsWidened(node->inputs[0]);
  }

  // Returns the bf16 whose conversion the value is.
  ValueId Half(ValueId v) {
    const Node& node = *graph_.Producer(v);
    if (node.op == Op::kCast) return rewriter_.Map(node.inputs[0]);
    const auto [it, is_new] = halves_.try_emplace(v, -1);
    if (is_new) it->second = rewriter_.builder.Must(node.op, {Half(node.inputs[0])}, node.attrs);
    return halves_[v];
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::map<ValueId, ValueId> halves_;
};

}  // namespace

Result<Graph> RoundProducts(const Graph& graph, const PassEnv& env) {
  if (!env.rounds_to_bf16) return graph;
  return RoundProductsPass(graph, env).Run();
}

Result<Graph> Bf16Products(const Graph& graph, const PassEnv& env) {
  if (!env.multiplies_bf16) return graph;
  return DropDeadCode(Bf16ProductsPass(graph).Run(), env);
}

}  // namespace autotune::graph
