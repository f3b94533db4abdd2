#include <cmath>

#include "graph/pass.h"
#include "graph/pass/rewriter.h"

namespace autotune::graph {
namespace {

class BatchNormFolder {
 public:
  explicit BatchNormFolder(const Graph& graph) : graph_(graph), rewriter_(graph), uses_(graph.UseCounts()) {}

  Graph Run() {
    for (const Node& node : graph_.nodes) {
      if (node.op == Op::kBatchNorm) {
        Define(node, FromBatchNorm(node));
      } else if (node.op == Op::kMul || node.op == Op::kAdd) {
        ValueId a = rewriter_.Map(node.inputs[0]), b = rewriter_.Map(node.inputs[1]);
        if (IsConstant(a)) std::swap(a, b);
        bool fits = IsConstant(b) && !IsConstant(a) && builder().Spec(a).shape == graph_.Spec(node.output).shape;
        if (!fits) {
          rewriter_.Copy(node);
        } else if (node.op == Op::kMul) {
          Define(node, Scaled(a, b, node.name));
        } else {
          Define(node, Shifted(a, b, node.name));
        }
      } else {
        rewriter_.Copy(node);
      }
      NoteUses(rewriter_.Map(node.output), uses_[node.output]);
    }
    return rewriter_.Finish();
  }

 private:
  GraphBuilder& builder() { return rewriter_.builder; }
  const Node* Producer(ValueId v) { return builder().graph().Producer(v); }
  void Define(const Node& node, ValueId now) { rewriter_.Set(node.output, now); }

  // Records the number of uses of a value in the old graph. Values without a record are new and are used once.
  void NoteUses(ValueId now, int uses) {
    if (new_uses_.size() <= static_cast<size_t>(now)) new_uses_.resize(now + 1, 1);
    new_uses_[now] = uses;
  }
  bool UsedOnce(ValueId v) const { return static_cast<size_t>(v) >= new_uses_.size() || new_uses_[v] == 1; }

  bool IsConstant(ValueId v) {
    const Graph& g = builder().graph();
    for (size_t i = constant_.size(); i < g.values.size(); ++i) {
      const Node* node = g.Producer(static_cast<ValueId>(i));
      bool all = node != nullptr;
      for (size_t k = 0; all && k < node->inputs.size(); ++k) all = constant_[node->inputs[k]];
      constant_.push_back(g.values[i].def == Value::Def::kConstant || all);
    }
    return constant_[v];
  }

  // Returns x * s + t with s = scale / sqrt(variance + epsilon), t = bias - mean * s, shaped to broadcast along the
  // axis.
  ValueId FromBatchNorm(const Node& node) {
    const auto& attrs = std::get<BatchNormAttrs>(node.attrs);
    ValueId x = rewriter_.Map(node.inputs[0]);
    Shape shape(builder().Spec(x).rank(), 1);
    shape[attrs.axis] = builder().Spec(x).shape[attrs.axis];
    ValueId p[5];
    for (int i = 1; i < 5; ++i) p[i] = builder().Reshape(rewriter_.Map(node.inputs[i]), shape, node.name);
    ValueId epsilon = builder().AddConstant("", TensorValue::FromNumbers(builder().Spec(x).dtype, {}, {attrs.epsilon}));
    ValueId deviation = Emit(Op::kSqrt, {Emit(Op::kAdd, {p[4], epsilon}, node.name)}, node.name);
    ValueId s = Emit(Op::kDiv, {p[1], deviation}, node.name);
    ValueId t = Emit(Op::kSub, {p[2], Emit(Op::kMul, {p[3], s}, node.name)}, node.name);
    if (!IsConstant(s)) return Emit(Op::kAdd, {Emit(Op::kMul, {x, s}, node.name), t}, node.name);
    ValueId y = Scaled(x, s, node.name);
    return IsConstant(t) ? Shifted(y, t, node.name) : Emit(Op::kAdd, {y, t}, node.name);
  }

  ValueId Emit(Op op, std::vector<ValueId> inputs, const std::string& name) {
    return builder().Must(op, std::move(inputs), {}, name);
  }

  // Returns true if s has one element, or one per index of `axis` of a tensor of this shape.
  static bool PerChannel(const Shape& s, const Shape& shape, size_t axis) {
    int64_t elements = TensorSpec{DType::Float(32), s}.NumElements();
    if (elements == 1) return true;
    size_t skip = shape.size() - s.size();
    return axis >= skip && s[axis - skip] == shape[axis] && elements == shape[axis];
  }

  // Returns the axis of v's output channels if v is a product with a constant weight and has one reader; else -1.
  int FoldableAxis(ValueId v) {
    const Node* node = Producer(v);
    if (!node || !UsedOnce(v)) return -1;
    const auto* conv = std::get_if<ConvAttrs>(&node->attrs);
    if ((!conv && node->op != Op::kMatmul) || !IsConstant(node->inputs[1])) return -1;
    return !conv || conv->layout == Layout::kNCHW ? 1 : builder().Spec(v).rank() - 1;
  }

  // Returns true if a multiplication of v by the constant s can move into the weight of the product that makes v.
  bool CanScale(ValueId v, ValueId s) {
    int axis = FoldableAxis(v);
    if (axis >= 0) return PerChannel(builder().Spec(s).shape, builder().Spec(v).shape, axis);
    const Node* node = Producer(v);
    return node && node->op == Op::kAdd && UsedOnce(v) && IsConstant(node->inputs[1]) && CanScale(node->inputs[0], s);
  }

  // Returns v * s. Multiplies the weight of the product that makes v instead, if it can.
  ValueId Scaled(ValueId v, ValueId s, const std::string& name) {
    if (!CanScale(v, s)) return Emit(Op::kMul, {v, s}, name);
    Node node = *Producer(v);  // a copy: the builder's nodes move while it grows
    if (node.op == Op::kAdd) {
      ValueId shift = Emit(Op::kMul, {node.inputs[1], s}, node.name);
      return Emit(Op::kAdd, {Scaled(node.inputs[0], s, name), shift}, node.name);
    }
    const TensorSpec& w = builder().Spec(node.inputs[1]);
    int64_t channels = builder().Spec(s).NumElements();
    const auto* conv = std::get_if<ConvAttrs>(&node.attrs);
    bool oihw = conv && conv->layout == Layout::kNCHW;
    Shape shape(w.rank(), 1);
    shape[oihw ? 0 : w.rank() - 1] = channels;
    ValueId weight = Emit(Op::kMul, {node.inputs[1], builder().Reshape(s, shape, name)}, name);
    return builder().Must(node.op, {node.inputs[0], weight}, node.attrs, node.name);
  }

  // Returns v + t. If v is itself a sum with a constant, adds t to that constant.
  ValueId Shifted(ValueId v, ValueId t, const std::string& name) {
    const Node* node = Producer(v);
    if (node && node->op == Op::kAdd && UsedOnce(v) && IsConstant(node->inputs[1])) {
      ValueId x = node->inputs[0], first = node->inputs[1];
      return Emit(Op::kAdd, {x, Emit(Op::kAdd, {first, t}, name)}, name);
    }
    return Emit(Op::kAdd, {v, t}, name);
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<int> uses_;
  std::vector<int> new_uses_;
  std::vector<bool> constant_;
};

}  // namespace

Result<Graph> FoldBatchNorm(const Graph& graph, const PassEnv& env) {
  return DropDeadCode(BatchNormFolder(graph).Run(), env);
}

}  // namespace autotune::graph
