// Products of bf16. ROUND_PRODUCTS and BF16_PRODUCTS are two passes, since networks of bf16 need the second one only:
//
//   round_products (if allowed):      conv(x, w)            ->  conv(f32(bf16(x)), f32(bf16(w)))
//   bf16_products:                    conv(f32(a), f32(b))  ->  conv(a, b), with sums of f32
//
// The second one keeps the exact value of each product, but for denormal numbers (ir/dot.h). Rounding is for what
// becomes faster: everything that the target multiplies as bf16, and the weights of products of few rows, which
// HalfWeights takes.
#include <algorithm>
#include <map>

#include "graph/pass.h"
#include "graph/pass/centered.h"
#include "graph/pass/few_rows.h"
#include "graph/pass/halves.h"
#include "graph/pass/rewriter.h"
#include "ir/tile_product.h"

namespace autotune::graph {
namespace {

const DType kBf16 = DType::BFloat16(), kFloats = DType::Float(32);

// Returns how many rows of a product's data lie at equal distances from each other: those of a matrix, the pixels of a
// row of an image, or all pixels if each result reads one of them.
int64_t RunOf(const Graph& graph, const Node& node) {
  const Shape& result = graph.Spec(node.output).shape;
  const auto* conv = std::get_if<ConvAttrs>(&node.attrs);
  if (!conv) return result[0];
  const Shape& weights = graph.Spec(node.inputs[1]).shape;
  const auto is_one = [](int64_t n) { return n == 1; };
  const bool of_pixels = weights[0] == 1 && weights[1] == 1 && std::ranges::all_of(conv->strides, is_one) &&
                         std::ranges::all_of(conv->pads, [](int64_t n) { return n == 0; });
  return of_pixels ? result[1] * result[2] : result[2];
}

// Returns whether the target multiplies the operands faster as bf16 than as f32.
bool Suits(const Graph& graph, const Node& node, const PassEnv& env) {
  const auto* conv = std::get_if<ConvAttrs>(&node.attrs);
  if (node.op != Op::kMatmul && !(node.op == Op::kConv2d && conv->layout == Layout::kNHWC && conv->groups == 1))
    return false;
  if (graph.Spec(node.output).dtype != kFloats || NeighboursOf(graph, node) % DotGroup(kBf16) != 0 ||
      TermsOf(graph, node) < kFewestTerms)
    return false;
  if (env.multiplies_bf16) return true;
  return env.multiplies_tiles && graph.Spec(node.output).shape.back() % kTileColumns == 0 &&
         TileRowsOf(RunOf(graph, node)) > 0;
}

class RoundProductsPass {
 public:
  RoundProductsPass(const Graph& graph, const PassEnv& env) : graph_(graph), env_(env), rewriter_(graph) {}

  Graph Run() {
    for (const Node& node : graph_.nodes) {
      const bool few_rows = IsOfFewRows(graph_, node);
      const bool gains = few_rows ? env_.converts_factors : Suits(graph_, node, env_);
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
  Bf16ProductsPass(const Graph& graph, const PassEnv& env) : graph_(graph), env_(env), rewriter_(graph) {}

  Graph Run() {
    for (const Node& node : graph_.nodes)
      if (!Rewrite(node)) rewriter_.Copy(node);
    return rewriter_.Finish();
  }

 private:
  bool Rewrite(const Node& node) {
    if (!Suits(graph_, node, env_) || !IsOfConstants(graph_, node.inputs[1])) return false;
    if (WidenedFrom(graph_, node.inputs[0]) != kBf16 || WidenedFrom(graph_, node.inputs[1]) != kBf16) return false;
    const std::vector<ValueId> halves = {Half(node.inputs[0]), Half(node.inputs[1])};
    rewriter_.Set(node.output, rewriter_.builder.Must(node.op, halves, node.attrs, node.name));
    return true;
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
  const PassEnv& env_;
  Rewriter rewriter_;
  std::map<ValueId, ValueId> halves_;
};

}  // namespace

Result<Graph> RoundProducts(const Graph& graph, const PassEnv& env) {
  if (!env.rounds_to_bf16) return graph;
  return RoundProductsPass(graph, env).Run();
}

Result<Graph> Bf16Products(const Graph& graph, const PassEnv& env) {
  if (!env.multiplies_bf16 && !env.multiplies_tiles) return graph;
  return DropDeadCode(Bf16ProductsPass(graph, env).Run(), env);
}

}  // namespace autotune::graph
