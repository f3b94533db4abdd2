// Divisions by the scale of a quantization move into the multiplications by scales before them:
//
//   (f32(x) s + b) / t  ->  f32(x) (s / t) + b / t
//
// x is an integer, s, b and t are constants, and t is one number. Vectors divide many times slower than they multiply.
// A quotient of constants is rounded once, so a result at a tie may become its other neighbour if t / s is no power of
// two: results differ by rounding.
#include <algorithm>
#include <map>
#include <set>

#include "graph/pass.h"
#include "graph/pass/rewriter.h"

namespace autotune::graph {
namespace {

constexpr DType kFloats = DType::Float(32);
constexpr double kLeast = 0x1p-64, kMost = 0x1p64;  // scales whose quotients with others neither vanish nor overflow

class FoldScalesPass {
 public:
  explicit FoldScalesPass(const Graph& graph) : graph_(graph), uses_(graph.UseCounts()), rewriter_(graph) {
    for (const Node& node : graph.nodes)
      if (node.op == Op::kRound) rounded_.insert(node.inputs[0]);
  }

  Graph Run() {
    for (const Node& node : graph_.nodes) {
      if (IsQuantization(node) && CanDivide(node.inputs[0])) {
        divisor_ = node.inputs[1];
        rewriter_.Set(node.output, Divided(node.inputs[0]));
      } else {
        rewriter_.Copy(node);
      }
      is_constant_.insert_or_assign(node.output,
                                    std::ranges::all_of(node.inputs, [&](ValueId v) { return IsConstant(v); }));
    }
    return rewriter_.Finish();
  }

 private:
  // Returns whether the node divides by a constant number, and only roundings read the quotient.
  bool IsQuantization(const Node& node) const {
    if (node.op != Op::kDiv || graph_.Spec(node.output).dtype != kFloats || uses_[node.output] != 1) return false;
    const Constant* c = graph_.FindConstant(node.inputs[1]);
    if (!c || !c->data || graph_.Spec(node.inputs[1]).NumElements() != 1) return false;
    const double scale = graph_.ConstantValue(*c).Number(0);
    return scale >= kLeast && scale <= kMost && rounded_.contains(node.output);
  }

  // Returns whether the value depends on constants only. FoldConstants will evaluate it.
  bool IsConstant(ValueId v) const {
    if (const Constant* c = graph_.FindConstant(v)) return static_cast<bool>(c->data);
    const auto it = is_constant_.find(v);
    return it != is_constant_.end() && it->second;
  }

  // Returns whether the value is an integer times constant scales.
  bool IsScaled(const Node& node) const {
    const Node* cast = node.op == Op::kMul ? graph_.Producer(node.inputs[0]) : nullptr;
    return cast && cast->op == Op::kCast && graph_.Spec(cast->inputs[0]).dtype.IsInt() && IsConstant(node.inputs[1]);
  }

  bool CanDivide(ValueId v) const {
    const Node* node = graph_.Producer(v);
    if (!node || graph_.Spec(v).dtype != kFloats) return false;
    if (IsScaled(*node)) return true;
    if (uses_[v] != 1) return false;
    switch (node->op) {
      case Op::kAdd:
      case Op::kSub:
      case Op::kMax:
      case Op::kMin: {
        const auto fits = [&](ValueId x) { return IsConstant(x) || CanDivide(x); };
        return fits(node->inputs[0]) && fits(node->inputs[1]);
      }
      case Op::kRelu:
      case Op::kReshape:
      case Op::kTranspose:
        return CanDivide(node->inputs[0]);
      default:
        return false;
    }
  }

  // Returns a value of which CanDivide holds, or a constant, divided by the divisor.
  ValueId Divided(ValueId v) {
    GraphBuilder& builder = rewriter_.builder;
    const auto quotient = [&](ValueId x) {
      const ValueId one = builder.Must(Op::kReshape, {rewriter_.Map(divisor_)}, ReshapeAttrs{{}});
      return builder.Must(Op::kDiv, {rewriter_.Map(x), one});
    };
    if (IsConstant(v)) return quotient(v);
    const Node& node = *graph_.Producer(v);
    std::vector<ValueId> inputs;
    if (IsScaled(node)) {
      inputs = {rewriter_.Map(node.inputs[0]), quotient(node.inputs[1])};
    } else {
      for (ValueId x : node.inputs) inputs.push_back(Divided(x));
    }
    return builder.Must(node.op, inputs, node.attrs, node.name);
  }

  const Graph& graph_;
  const std::vector<int> uses_;
  Rewriter rewriter_;
  std::set<ValueId> rounded_;            // operands of roundings
  std::map<ValueId, bool> is_constant_;  // results of nodes
  ValueId divisor_ = -1;                 // of the division that is folded
};

}  // namespace

Result<Graph> FoldScales(const Graph& graph, const PassEnv& env) {
  if (!env.multiplies_bytes) return graph;
  return DropDeadCode(FoldScalesPass(graph).Run(), env);
}

}  // namespace autotune::graph
