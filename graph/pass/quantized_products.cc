// Products of dequantized numbers become products of integers, which are scaled afterwards:
//
//   (f32(x - z) s) (f32(w - u) t)  ->  f32((x - z) (w - u)) (s t)
//
// x and w have 8 bits, and w is a constant. s is one number, t one number or one for each column. The sums of products
// of floats were rounded, those of integers are exact: results differ by these roundings, as in every runtime that
// fuses the operators around a quantized product.
#include <algorithm>
#include <optional>

#include "graph/pass.h"
#include "graph/pass/centered.h"
#include "graph/pass/rewriter.h"

namespace autotune::graph {
namespace {

constexpr DType kFloats = DType::Float(32);
constexpr int64_t kMostTerms = INT32_MAX / (255 * 128);  // of a sum that cannot wrap around

// A tensor of floats: an integer tensor times a scale.
struct Scaled {
  ValueId integers = -1;  // of i32, as Centered
  ValueId scale = -1;     // of f32
};

class QuantizedProductsPass {
 public:
  explicit QuantizedProductsPass(const Graph& graph) : graph_(graph), rewriter_(graph) {}

  Graph Run() {
    for (const Node& node : graph_.nodes)
      if (!Rewrite(node)) rewriter_.Copy(node);
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

  // Returns the constant that a value copies, in another type or shape.
  const Constant* ConstantBehind(ValueId v) const {
    while (const Node* node = graph_.Producer(v)) {
      if (node->op != Op::kCast && node->op != Op::kReshape) return nullptr;
      v = node->inputs[0];
    }
    const Constant* c = graph_.FindConstant(v);
    return c && c->data ? c : nullptr;
  }

  // Returns whether all numbers of a constant minus its zero point fit 8 bits with a sign.
  bool IsSmall(const Centered& w) const {
    const Constant* numbers = ConstantBehind(w.bytes);
    if (!numbers || graph_.Spec(w.bytes).NumElements() == 0) return false;
    double low_zero = 0, high_zero = 0;
    if (w.zero >= 0) {
      const Constant* zeros = ConstantBehind(w.zero);
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

  bool Rewrite(const Node& node) {
    if (node.op != Op::kMatmul || graph_.Spec(node.output).dtype != kFloats) return false;
    // The importer cuts a batch of matrices into rows behind their scale.
    const Shape rows = graph_.Spec(node.inputs[0]).shape;
    ValueId left = node.inputs[0];
    const Node* reshape = graph_.Producer(left);
    const bool reshaped = reshape && reshape->op == Op::kReshape;
    if (reshaped) left = reshape->inputs[0];
    const std::optional<Scaled> x = ScaledOf(left), w = ScaledOf(node.inputs[1]);
    if (!x || !w || !SumsInGroups(rows[1]) || rows[1] > kMostTerms) return false;
    const std::optional<Centered> bytes = CenteredOf(graph_, x->integers), weights = CenteredOf(graph_, w->integers);
    const bool one_zero = bytes->zero < 0 || graph_.Spec(bytes->zero).NumElements() == 1;
    if (graph_.Spec(x->scale).NumElements() != 1 || !one_zero || !IsSmall(*weights)) return false;
    const TensorSpec& scales = graph_.Spec(w->scale);
    const bool along_columns = scales.NumElements() == 1 || scales.shape.back() == scales.NumElements();
    if (!along_columns || scales.rank() > 2) return false;
    ValueId a = rewriter_.Map(x->integers);
    if (reshaped) a = Must(Op::kReshape, {a}, ReshapeAttrs{rows});
    const ValueId sums = Must(Op::kMatmul, {a, rewriter_.Map(w->integers)}, {}, node.name);
    const ValueId one = Must(Op::kReshape, {rewriter_.Map(x->scale)}, ReshapeAttrs{{}});
    const ValueId scale = Must(Op::kMul, {one, rewriter_.Map(w->scale)});
    rewriter_.Set(node.output, Must(Op::kMul, {Must(Op::kCast, {sums}, CastAttrs{kFloats}), scale}));
    return true;
  }
  ValueId Must(Op op, std::vector<ValueId> inputs, Attrs attrs = {}, const std::string& name = "") {
    return rewriter_.builder.Must(op, std::move(inputs), std::move(attrs), name);
  }

  const Graph& graph_;
  Rewriter rewriter_;
};

}  // namespace

Result<Graph> QuantizedProducts(const Graph& graph, const PassEnv& env) {
  if (!env.multiplies_bytes) return graph;
  return DropDeadCode(QuantizedProductsPass(graph).Run(), env);
}

}  // namespace autotune::graph
