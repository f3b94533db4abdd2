#include "graph/pass/center_rounded.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "graph/pass/centered.h"
#include "graph/pass/rewriter.h"

namespace autotune::graph {
namespace {

class CenterRoundedPass {
 public:
  explicit CenterRoundedPass(const Graph& graph)
      : graph_(graph), uses_(graph.UseCounts()), rewriter_(graph), ignores_sign_(graph.values.size(), true) {
    for (const ValueId v : graph.outputs) ignores_sign_[v] = false;
    for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node)
      for (const ValueId v : node->inputs) ignores_sign_[v] = ignores_sign_[v] && IgnoresSign(*node, v);
  }

  Graph Run() {
    for (const Node& node : graph_.nodes) {
      if (const std::optional<Clipped> clipped = ClippedOf(node)) {
        rewriter_.Set(node.output, WithMovedBounds(*clipped));
      } else {
        rewriter_.Copy(node);
      }
    }
    return rewriter_.Finish();
  }

 private:
  // The floats min(max(rounded + zero, low), high) - taken.
  struct Clipped {
    ValueId rounded = -1;
    double zero = 0, low = 0, high = 0, taken = 0;
  };

  // Returns whether nothing but the sign of a zero can depend on the sign of a zero operand, and whether no reader of
  // the result depends on that.
  bool IgnoresSign(const Node& node, ValueId operand) const {
    switch (node.op) {
      case Op::kCast:
        return graph_.Spec(node.output).dtype.IsInt() || ignores_sign_[node.output];
      case Op::kAdd: {  // -0 + c is c, like 0 + c, unless c is -0
        const std::optional<double> c = NumberOf(graph_, node.inputs[0] == operand ? node.inputs[1] : node.inputs[0]);
        return (c && !(*c == 0 && std::signbit(*c))) || ignores_sign_[node.output];
      }
      case Op::kDiv:
        return node.inputs[1] != operand && ignores_sign_[node.output];
      case Op::kExp:
      case Op::kSigmoid:
      case Op::kAbs:
        return true;
      case Op::kSub:
      case Op::kMul:
      case Op::kFma:
      case Op::kMax:
      case Op::kMin:
      case Op::kNeg:
      case Op::kRelu:
      case Op::kClip:
      case Op::kRound:
      case Op::kErf:
      case Op::kTanh:
        return ignores_sign_[node.output];
      default:
        return false;
    }
  }

  std::optional<double> WholeNumber(ValueId v) const {
    const std::optional<double> x = NumberOf(graph_, v);
    return x && std::floor(*x) == *x && std::abs(*x) < kExactIntegers / 2 ? x : std::nullopt;
  }

  std::optional<Clipped> ClippedOf(const Node& node) const {
    if ((node.op != Op::kSub && node.op != Op::kAdd) || !ignores_sign_[node.output]) return std::nullopt;
    const std::optional<Rounded> x = RoundedOf(graph_, node.inputs[0]);
    if (!x || !std::ranges::all_of(x->behind, [&](ValueId v) { return uses_[v] == 1; })) return std::nullopt;
    const std::optional<double> number = WholeNumber(node.inputs[1]), zero = WholeNumber(x->zero),
                                low = WholeNumber(x->low), high = WholeNumber(x->high);
    if (!number || !zero || !low || !high) return std::nullopt;
    return Clipped{x->rounded, *zero, *low, *high, node.op == Op::kSub ? *number : -*number};
  }

  ValueId WithMovedBounds(const Clipped& x) {
    const auto with = [&](Op op, ValueId v, double number) {
      const ValueId constant = rewriter_.builder.AddConstant("", TensorValue::Scalar(static_cast<float>(number)));
      return rewriter_.builder.Must(op, {v, constant});
    };
    ValueId y = rewriter_.Map(x.rounded);
    if (x.zero != x.taken) y = with(Op::kAdd, y, x.zero - x.taken);
    return with(Op::kMin, with(Op::kMax, y, x.low - x.taken), x.high - x.taken);
  }

  const Graph& graph_;
  const std::vector<int> uses_;
  Rewriter rewriter_;
  std::vector<bool> ignores_sign_;  // by value: no result depends on the sign of its zeros
};

}  // namespace

Graph CenterRounded(const Graph& graph) { return CenterRoundedPass(graph).Run(); }

}  // namespace autotune::graph
