// Products of dequantized numbers become products of integers, which are scaled afterwards:
//
//   (f32(x - z) s) (f32(w - u) t)  ->  f32((x - z) (w - u)) (s t)
//
// x, w and z have 8 bits, and w is a constant that fits 8 bits with a sign without its zero point u. s is one number, t
// one number or one for each column (output channel). Or w is computed, as in attention: then u has 8 bits as well, and
// t is one number. The sums of products of floats were rounded, those of integers are exact: results differ by these
// roundings, as in every runtime that fuses the operators around a quantized product.
#include <algorithm>
#include <optional>
#include <ranges>

#include "graph/pass.h"
#include "graph/pass/centered.h"
#include "graph/pass/rewriter.h"
#include "graph/to_te.h"
#include "topi/winograd.h"

namespace autotune::graph {
namespace {

constexpr DType kFloats = DType::Float(32);
constexpr int64_t kMostFactor = 255 + 128;                     // of x - z: HasSmallZero
constexpr int64_t kMostProduct = kMostFactor * 128;            // of (x - z) (w - u): IsSmall
constexpr int64_t kMostTerms = INT32_MAX / kMostProduct;       // of a sum that cannot wrap around
constexpr int64_t kMostExactTerms = (1 << 24) / kMostProduct;  // of a sum that is exact in f32 (ExactProducts)
constexpr int64_t kMostComputedTerms = INT32_MAX / (kMostFactor * kMostFactor);

// A tensor of floats: an integer tensor times a scale.
struct Scaled {
  ValueId integers = -1;  // of i32, as Centered
  ValueId scale = -1;     // of f32
};

class QuantizedProductsPass {
 public:
  QuantizedProductsPass(const Graph& graph, const PassEnv& env) : graph_(graph), env_(env), rewriter_(graph) {}

  Graph Run() {
    for (const Node& node : graph_.nodes)
      if (!Rewrite(node) && !RewriteComputed(node)) rewriter_.Copy(node);
    return rewriter_.Finish();
  }

 private:
  std::optional<Scaled> ScaledOf(ValueId v) const {
    const Node* node = graph_.Producer(v);
    if (!node || node->op != Op::kMul || graph_.Spec(v).dtype != kFloats) return std::nullopt;
    const Node* cast = graph_.Producer(node->inputs[0]);
    if (!cast || cast->op != Op::kCast || graph_.Spec(node->inputs[0]).shape != graph_.Spec(v).shape)
      return std::nullopt;
    if (!CenteredOf(graph_, cast->inputs[0])) return std::nullopt;
    return Scaled{cast->inputs[0], node->inputs[1]};
  }

  // Returns whether all numbers of a constant minus its zero point fit 8 bits with a sign.
  bool IsSmall(const Centered& w) const {
    const Constant* numbers = ConstantBehind(graph_, w.bytes);
    if (!numbers || graph_.Spec(w.bytes).NumElements() == 0) return false;
    double low_zero = 0, high_zero = 0;
    if (w.zero >= 0) {
      const Constant* zeros = ConstantBehind(graph_, w.zero);
      if (!zeros) return false;
      const TensorValue value = graph_.ConstantValue(*zeros);
      low_zero = high_zero = value.Number(0);
      for (int64_t i = 1; i < value.spec.NumElements(); ++i) {
        low_zero = std::min(low_zero, value.Number(i));
        high_zero = std::max(high_zero, value.Number(i));
      }
    }
    const TensorValue value = graph_.ConstantValue(*numbers);
    for (int64_t i = 0; i < value.spec.NumElements(); ++i)
      if (value.Number(i) - high_zero < -128 || value.Number(i) - low_zero > 127) return false;
    return true;
  }

  // Returns whether integers pay: whether their sums are those of dot products, or exact in f32 as well.
  bool Pays(const Node& node) const {
    const int64_t terms = TermsOf(graph_, node);
    if (terms > kMostTerms) return false;
    if (env_.multiplies_bytes)
      return SumsInGroups(graph_, node) || (terms <= kMostExactTerms && node.op != Op::kMatmul);
    return SuitsWords(graph_, node) && !(env_.winograd && SuitsWinograd(node));
  }

  // Returns whether Winograd's algorithm, of floats alone, computes the convolution faster than dot products of words:
  // it takes 36 products instead of 144 for 4x4 results, words half as many instructions. [measured: ResNet-50]
  bool SuitsWinograd(const Node& node) const {
    const auto* conv = std::get_if<ConvAttrs>(&node.attrs);
    if (!conv) return false;
    const Shape& weights = graph_.Spec(node.inputs[1]).shape;
    return topi::WinogradObstacle(Shape(weights.begin() + 2, weights.end()), ToTopi(*conv)).empty();
  }

  // Returns the shape in which the scales of weights broadcast to the result of the product, or nothing if they are not
  // one for each column (output channel), or one for all. `column`: the dimension of the columns in the weights.
  std::optional<Shape> ScalesBesideResult(const Node& node, const Shape& weights, const TensorSpec& scales,
                                          size_t column) const {
    if (scales.NumElements() == 1) return Shape{};
    const Shape& result = graph_.Spec(node.output).shape;
    const size_t leading = weights.size() - std::min(weights.size(), scales.shape.size());
    for (size_t d = 0; d < scales.shape.size(); ++d)
      if (scales.shape[d] != (d + leading == column ? weights[column] : 1)) return std::nullopt;
    Shape shape(result.size(), 1);
    shape[std::holds_alternative<ConvAttrs>(node.attrs) ? 1 : result.size() - 1] = weights[column];
    return shape;
  }

  // An operand of a product that is computed: quantized numbers with one scale and one zero point, perhaps reshaped and
  // transposed, as the heads of attention are.
  struct Computed {
    Scaled scaled;
    std::vector<const Node*> views;  // the last one comes first
  };
  std::optional<Computed> ComputedOf(ValueId v) const {
    Computed found;
    const Node* node = graph_.Producer(v);
    for (; node && (node->op == Op::kReshape || node->op == Op::kTranspose); node = graph_.Producer(v)) {
      found.views.push_back(node);
      v = node->inputs[0];
    }
    const std::optional<Scaled> scaled = ScaledOf(v);
    if (!scaled || graph_.Spec(scaled->scale).NumElements() != 1) return std::nullopt;
    const Centered centered = *CenteredOf(graph_, scaled->integers);
    const bool one_zero = centered.zero < 0 || graph_.Spec(centered.zero).NumElements() == 1;
    if (!one_zero || !HasSmallZero(graph_, centered)) return std::nullopt;
    found.scaled = *scaled;
    return found;
  }
  ValueId Integers(const Computed& x) {
    ValueId integers = rewriter_.Map(x.scaled.integers);
    for (const Node* view : x.views | std::views::reverse) integers = Must(view->op, {integers}, view->attrs);
    return integers;
  }
  ValueId OneScale(const Computed& x) { return Must(Op::kReshape, {rewriter_.Map(x.scaled.scale)}, ReshapeAttrs{{}}); }

  // Rewrites the product of two computed matrices.
  bool RewriteComputed(const Node& node) {
    if (!env_.multiplies_bytes || !IsComputedProductOfGroups(graph_, node) || graph_.Spec(node.output).dtype != kFloats)
      return false;
    if (TermsOf(graph_, node) > kMostComputedTerms) return false;
    const std::optional<Computed> a = ComputedOf(node.inputs[0]), b = ComputedOf(node.inputs[1]);
    if (!a || !b) return false;
    const ValueId sums = Must(node.op, {Integers(*a), Integers(*b)}, node.attrs, node.name);
    const ValueId scale = Must(Op::kMul, {OneScale(*a), OneScale(*b)});
    rewriter_.Set(node.output, Must(Op::kMul, {Must(Op::kCast, {sums}, CastAttrs{kFloats}), scale}));
    return true;
  }

  bool Rewrite(const Node& node) {
    const auto* conv = std::get_if<ConvAttrs>(&node.attrs);
    if ((node.op != Op::kMatmul && !conv) || graph_.Spec(node.output).dtype != kFloats) return false;
    if ((conv && conv->layout != Layout::kNCHW) || !Pays(node)) return false;
    // The importer cuts a batch of matrices into rows behind their scale, and transposes the weights of Gemm there.
    const Shape data = graph_.Spec(node.inputs[0]).shape;
    const Node* reshape = ProducerOf(graph_, node.inputs[0], Op::kReshape);
    const Node* transpose = conv ? nullptr : ProducerOf(graph_, node.inputs[1], Op::kTranspose);
    const std::optional<Scaled> x = ScaledOf(reshape ? reshape->inputs[0] : node.inputs[0]);
    const std::optional<Scaled> w = ScaledOf(transpose ? transpose->inputs[0] : node.inputs[1]);
    if (!x || !w) return false;
    const std::optional<Centered> bytes = CenteredOf(graph_, x->integers), weights = CenteredOf(graph_, w->integers);
    const bool one_zero =
        bytes->zero < 0 || (graph_.Spec(bytes->zero).NumElements() == 1 && HasSmallZero(graph_, *bytes));
    if (graph_.Spec(x->scale).NumElements() != 1 || !one_zero || !IsSmall(*weights)) return false;
    const std::optional<Shape> scales =
        ScalesBesideResult(node, graph_.Spec(w->integers).shape, graph_.Spec(w->scale), conv || transpose ? 0 : 1);
    if (!scales) return false;
    ValueId a = rewriter_.Map(x->integers), b = rewriter_.Map(w->integers);
    if (reshape) a = Must(Op::kReshape, {a}, ReshapeAttrs{data});
    if (transpose) b = Must(Op::kTranspose, {b}, transpose->attrs);
    const ValueId sums = Must(node.op, {a, b}, node.attrs, node.name);
    const ValueId one = Must(Op::kReshape, {rewriter_.Map(x->scale)}, ReshapeAttrs{{}});
    const ValueId columns = Must(Op::kReshape, {rewriter_.Map(w->scale)}, ReshapeAttrs{*scales});
    const ValueId scale = Must(Op::kMul, {one, columns});
    rewriter_.Set(node.output, Must(Op::kMul, {Must(Op::kCast, {sums}, CastAttrs{kFloats}), scale}));
    return true;
  }
  ValueId Must(Op op, std::vector<ValueId> inputs, Attrs attrs = {}, const std::string& name = "") {
    return rewriter_.builder.Must(op, std::move(inputs), std::move(attrs), name);
  }

  const Graph& graph_;
  const PassEnv& env_;
  Rewriter rewriter_;
};

}  // namespace

Result<Graph> QuantizedProducts(const Graph& graph, const PassEnv& env) {
  if (!env.multiplies_bytes && !env.multiplies_words) return graph;
  return DropDeadCode(QuantizedProductsPass(graph, env).Run(), env);
}

}  // namespace autotune::graph
