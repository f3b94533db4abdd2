// Division by the scale of QuantizeLinear moves into the constants in front of it:
//
//   round((x s + b) / t)  ->  round(fma(x, s / t, b / t))
//
// So the results of a quantized product are scaled once, not twice, and a sum of two dequantized tensors costs a
// multiply-add for each of them and no quotient. The quotients of constants are rounded once, from f64. Results of
// QuantizeLinear differ by one only where the quotient is within a few roundoffs of a tie, as in every runtime that
// gives a quantized product one scale. Where scales have a simple ratio, many quotients may be ties, as in (x s + s /
// 2) / s, and roundoffs decide about all of them. Such divisions stay.
#include <cmath>

#include "graph/pass.h"
#include "graph/pass/centered.h"
#include "graph/pass/rewriter.h"

namespace autotune::graph {
namespace {

constexpr DType kFloats = DType::Float(32);
constexpr double kMostTies = 1.0 / 256;  // largest share of quotients that may be ties [chosen]

// Returns the least q up to 1 / kMostTies for which x is p / q but for roundoffs, or 0 if there is none. Fractions that
// are so near to a number are convergents of its continued fraction.
int64_t DenominatorOf(double x) {
  constexpr double kRoundoffs = 0x1p-22;  // relative: of two scales and their quotient
  double rest = std::abs(x);
  int64_t q = 1, before = 0;
  while (q <= 1 / kMostTies) {
    const double p = std::round(std::abs(x) * static_cast<double>(q));
    if (p >= 1 && std::abs(p / static_cast<double>(q) - std::abs(x)) <= kRoundoffs * std::abs(x)) return q;
    rest = 1 / (rest - std::floor(rest));
    if (!(rest <= 2 / kMostTies)) return 0;
    const int64_t next = static_cast<int64_t>(rest) * q + before;
    before = q;
    q = next;
  }
  return 0;
}

class FoldScalesPass {
 public:
  explicit FoldScalesPass(const Graph& graph) : graph_(graph), uses_(graph.UseCounts()), rewriter_(graph) {}

  Graph Run() {
    // Only quotients that are rounded next may move: other operators may depend on each roundoff.
    std::vector<bool> is_quantized(graph_.values.size(), false);
    for (const Node& node : graph_.nodes)
      if (const std::optional<Rounded> rounded = RoundedOf(graph_, node.output))
        is_quantized[rounded->x] = uses_[rounded->x] == 1;
    for (const Node& node : graph_.nodes) {
      const double divisor = is_quantized[node.output] ? DivisorOf(node) : 0;
      factors_.clear();
      has_offset_ = false;
      shape_ = graph_.Spec(node.output).shape;
      if (divisor > 0 && Divides(node.inputs[0], divisor) && TiesOf(divisor) <= kMostTies) {
        rewriter_.Set(node.output, Divided(node.inputs[0], divisor));
      } else {
        rewriter_.Copy(node);
      }
    }
    return rewriter_.Finish();
  }

 private:
  // Returns the number that the node divides by, if it is a positive constant, else 0.
  double DivisorOf(const Node& node) const {
    const Constant* c = node.op == Op::kDiv ? graph_.FindConstant(node.inputs[1]) : nullptr;
    const TensorSpec& made = graph_.Spec(node.output);
    if (!c || !c->data || graph_.Spec(c->value).NumElements() != 1 || made.dtype != kFloats) return 0;
    if (graph_.Spec(node.inputs[0]).shape != made.shape) return 0;  // a number of a higher rank
    const double number = graph_.ConstantValue(*c).Number(0);
    return number > 0 && std::isfinite(number) ? number : 0;
  }

  // Returns whether `v` is a constant whose quotients f32 holds as well as its numbers.
  bool HasQuotients(ValueId v, double divisor) const {
    const Constant* c = graph_.FindConstant(v);
    if (!c || !c->data) return false;
    const TensorValue value = graph_.ConstantValue(*c);
    for (int64_t i = 0; i < value.spec.NumElements(); ++i) {
      const double number = value.Number(i);
      if (number != 0 && !std::isnormal(static_cast<float>(number / divisor))) return false;
    }
    return true;
  }

  static float Bound(float bound, double divisor) { return static_cast<float>(bound / divisor); }
  // Returns whether the node is a bound of numbers from above or below whose quotient f32 holds.
  static bool Clips(const Node& node, double divisor) {
    const auto* clip = std::get_if<ClipAttrs>(&node.attrs);
    if (!clip) return node.op == Op::kRelu;
    const auto holds = [&](float bound) { return std::isinf(bound) || !std::isinf(Bound(bound, divisor)); };
    return holds(clip->min) && holds(clip->max);
  }

  // Returns what divides the second operand. A difference is the sum with a term divided by the opposite number.
  static double DivisorOfSecond(const Node& sum, double divisor) { return sum.op == Op::kSub ? -divisor : divisor; }

  // Returns whether the quotient of `v` follows from quotients of constants alone. Notes the factors of whole numbers,
  // and whether there is another addend.
  bool Divides(ValueId v, double divisor) {
    const Node* node = graph_.Producer(v);
    if (!node) {
      has_offset_ = true;
      return HasQuotients(v, divisor);
    }
    if (graph_.Spec(v).dtype != kFloats) return false;
    if (node->op == Op::kMul) {
      // Another product for each reader costs nothing where it becomes a part of their kernels.
      if (uses_[v] != 1 && graph_.Spec(v).shape != shape_) return false;
      factors_.push_back(node->inputs[FactorOf(*node, divisor)]);
      return HasQuotients(factors_.back(), divisor);
    }
    if (uses_[v] != 1) return false;
    if (node->op == Op::kReshape || (divisor > 0 && Clips(*node, divisor))) return Divides(node->inputs[0], divisor);
    if (node->op != Op::kAdd && node->op != Op::kSub) return false;
    return Divides(node->inputs[0], divisor) && Divides(node->inputs[1], DivisorOfSecond(*node, divisor));
  }

  // Returns the quotient of a value of which Divides returns true.
  ValueId Divided(ValueId v, double divisor) {
    const Node* node = graph_.Producer(v);
    if (!node) return Quotients(v, divisor);
    if (node->op == Op::kMul) return Must(*node, Op::kMul, DividedFactors(*node, divisor));
    if (node->op != Op::kAdd && node->op != Op::kSub) {
      Attrs attrs = node->attrs;
      if (auto* clip = std::get_if<ClipAttrs>(&attrs)) *clip = {Bound(clip->min, divisor), Bound(clip->max, divisor)};
      return Must(*node, node->op, {Divided(node->inputs[0], divisor)}, attrs);
    }
    const double divisors[] = {divisor, DivisorOfSecond(*node, divisor)};
    for (const size_t i : {0, 1}) {
      const Node* product = ProducerOf(graph_, node->inputs[i], Op::kMul);
      if (!product) continue;
      std::vector<ValueId> operands = DividedFactors(*product, divisors[i]);
      operands.push_back(Divided(node->inputs[1 - i], divisors[1 - i]));
      return Must(*node, Op::kFma, operands);
    }
    return Must(*node, Op::kAdd, {Divided(node->inputs[0], divisors[0]), Divided(node->inputs[1], divisors[1])});
  }

  // Returns which operand of a product is divided.
  size_t FactorOf(const Node& product, double divisor) const {
    return HasQuotients(product.inputs[1], divisor) ? 1 : 0;
  }

  // Returns the operands of a product of which the last one is divided.
  std::vector<ValueId> DividedFactors(const Node& product, double divisor) {
    const size_t factor = FactorOf(product, divisor);
    return {rewriter_.Map(product.inputs[1 - factor]), Quotients(product.inputs[factor], divisor)};
  }

  // Returns the share of quotients that are ties if the factors multiply random whole numbers. Multiples of p / q have
  // ties only if q is even, or if something is added.
  double TiesOf(double divisor) const {
    double share = 0;
    for (const ValueId v : factors_) {
      const TensorValue value = graph_.ConstantValue(*graph_.FindConstant(v));
      const int64_t count = value.spec.NumElements();
      for (int64_t i = 0; i < count; ++i) {
        const int64_t q = DenominatorOf(value.Number(i) / divisor);
        if (q > 0 && (q % 2 == 0 || has_offset_)) share += 1 / static_cast<double>(q * count);
      }
    }
    return share;
  }

  ValueId Must(const Node& like, Op op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return rewriter_.builder.Must(op, std::move(inputs), std::move(attrs), like.name);
  }

  ValueId Quotients(ValueId v, double divisor) {
    const TensorValue value = graph_.ConstantValue(*graph_.FindConstant(v));
    std::vector<double> quotients(static_cast<size_t>(value.spec.NumElements()));
    for (size_t i = 0; i < quotients.size(); ++i) quotients[i] = value.Number(static_cast<int64_t>(i)) / divisor;
    return rewriter_.builder.AddConstant(graph_.values[v].name,
                                         TensorValue::FromNumbers(kFloats, value.spec.shape, quotients));
  }

  const Graph& graph_;
  const std::vector<int> uses_;
  Rewriter rewriter_;
  Shape shape_;                   // of the quotient that Divides looks at
  std::vector<ValueId> factors_;  // of that quotient
  bool has_offset_ = false;       // whether that quotient has an addend that is no product
};

}  // namespace

Result<Graph> FoldScales(const Graph& graph, const PassEnv& env) {
  return ShareCommonSubexpressions(TRY(DropDeadCode(FoldScalesPass(graph).Run(), env)), env);
}

}  // namespace autotune::graph
