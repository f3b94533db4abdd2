// Floats that become integers and floats again, as between QuantizeLinear and DequantizeLinear, stay floats if the
// integers are exact in both types. Floats that become bytes and bytes of the other sign get that sign at once.
#include <algorithm>
#include <cmath>
#include <optional>

#include "graph/pass.h"
#include "graph/pass/center_rounded.h"
#include "graph/pass/centered.h"
#include "graph/pass/rewriter.h"

namespace autotune::graph {
namespace {

constexpr DType kFloats = DType::Float(32);

Graph WithWholeFloats(const Graph& graph);

struct Interval {
  double low = 0, high = 0;
  bool Within(double least, double most) const { return low >= least && high <= most; }
};

bool IsWholeNumber(double x) { return std::isfinite(x) && std::floor(x) == x; }

class WholeFloatsPass {
 public:
  explicit WholeFloatsPass(const Graph& graph) : graph_(graph), uses_(graph.UseCounts()), rewriter_(graph) {}

  Graph Run() {
    for (const Node& node : graph_.nodes) {
      if (node.op == Op::kFused) {
        auto body = std::make_shared<const Graph>(WithWholeFloats(*node.body));
        if (body->nodes.size() == node.body->nodes.size()) body = node.body;
        rewriter_.Set(node.output, rewriter_.builder.Call(body, rewriter_.MapAll(node.inputs), node.name));
      } else if (EndsIntegers(node)) {
        const ValueId floats = Floats(node.inputs[0]);
        const DType type = graph_.Spec(node.output).dtype;
        rewriter_.Set(node.output,
                      type == kFloats ? floats : rewriter_.builder.Must(Op::kCast, {floats}, node.attrs, node.name));
      } else {
        rewriter_.Copy(node);
      }
    }
    return rewriter_.Finish();
  }

 private:
  // Returns whether the node converts integers that floats can replace: to floats, or, moved by a constant, to bytes.
  bool EndsIntegers(const Node& node) const {
    if (node.op != Op::kCast || !graph_.Spec(node.inputs[0]).dtype.IsInt()) return false;
    const DType type = graph_.Spec(node.output).dtype;
    if (type == kFloats) return SkippedRange(node.inputs[0]).has_value();
    const Node* moved = graph_.Producer(node.inputs[0]);
    if (!IsByte(type) || !moved || moved->op == Op::kCast) return false;
    const std::optional<Interval> range = SkippedRange(node.inputs[0]);
    return range && (type.IsSigned() ? range->Within(-128, 127) : range->Within(0, 255));
  }

  // Returns the least and the greatest number of a constant of whole numbers none of which is -0.
  std::optional<Interval> RangeOfConstant(ValueId v) const {
    const Constant* c = graph_.FindConstant(v);
    if (!c || !c->data) return std::nullopt;
    const TensorValue value = graph_.ConstantValue(*c);
    Interval range{HUGE_VAL, -HUGE_VAL};
    for (int64_t i = 0; i < value.spec.NumElements(); ++i) {
      const double x = value.Number(i);
      if (!IsWholeNumber(x) || (x == 0 && std::signbit(x))) return std::nullopt;
      range = {std::min(range.low, x), std::max(range.high, x)};
    }
    return range;
  }

  // Returns the bounds of an f32 tensor of whole numbers without -0 and NaN, as QuantizeLinear makes it. The sum with
  // the zero point is not -0, since the constant zero point is not. If a number is NaN, max and min return their second
  // operand.
  std::optional<Interval> RangeOfFloats(ValueId v) const {
    const std::optional<Rounded> x = RoundedOf(graph_, v);
    if (!x || !RangeOfConstant(x->zero)) return std::nullopt;
    const std::optional<Interval> low = RangeOfConstant(x->low), high = RangeOfConstant(x->high);
    return low && high ? std::optional(Interval{low->low, high->high}) : std::nullopt;
  }

  // Returns the range of an integer tensor that floats of whole numbers can replace: integers converted from such
  // floats, then converted to other integers or moved by constants. All numbers are exact in f32 and in the integers.
  // A tensor with other readers is made anyway, so it is not replaced.
  std::optional<Interval> SkippedRange(ValueId v) const {
    const Node* node = graph_.Producer(v);
    if (!node || uses_[v] != 1) return std::nullopt;
    std::optional<Interval> range;
    if (node->op == Op::kCast) {
      range =
          graph_.Spec(node->inputs[0]).dtype.IsInt() ? SkippedRange(node->inputs[0]) : RangeOfFloats(node->inputs[0]);
    } else if (node->op == Op::kSub || node->op == Op::kAdd) {
      const std::optional<Interval> a = SkippedRange(node->inputs[0]), b = RangeOfConstant(node->inputs[1]);
      if (a && b && node->op == Op::kSub) range = {a->low - b->high, a->high - b->low};
      if (a && b && node->op == Op::kAdd) range = {a->low + b->low, a->high + b->high};
    }
    const DType type = graph_.Spec(v).dtype;
    const double most = std::min(std::ldexp(1.0, type.IsSigned() ? type.bits - 1 : type.bits) - 1, kExactIntegers);
    const double least = type.IsSigned() ? std::max(-most - 1, -kExactIntegers) : 0;
    return range && range->Within(least, most) ? range : std::nullopt;
  }

  // Returns the floats that replace a tensor of which SkippedRange knows the range.
  ValueId Floats(ValueId v) {
    const Node& node = *graph_.Producer(v);
    if (node.op == Op::kCast) {
      const ValueId from = node.inputs[0];
      return graph_.Spec(from).dtype.IsInt() ? Floats(from) : rewriter_.Map(from);
    }
    const ValueId a = Floats(node.inputs[0]);
    const ValueId b = rewriter_.AddFloats(*graph_.FindConstant(node.inputs[1]));
    return rewriter_.builder.Must(node.op, {a, b}, {}, node.name);
  }

  const Graph& graph_;
  const std::vector<int> uses_;
  Rewriter rewriter_;
};

Graph WithWholeFloats(const Graph& graph) {
  return *DropDeadCode(CenterRounded(*DropDeadCode(WholeFloatsPass(graph).Run(), {})), {});
}

}  // namespace

Result<Graph> WholeFloats(const Graph& graph, const PassEnv&) { return WithWholeFloats(graph); }

}  // namespace autotune::graph
