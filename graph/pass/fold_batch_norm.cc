#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "graph/pass.h"
#include "graph/pass/halves.h"
#include "graph/pass/rewriter.h"

namespace autotune::graph {
namespace {

// Numbers that a fold makes must lie below kMost, so that products with the data and their sums do not overflow where
// those of the model do not. Weights must keep a number above kLeast; the smallest normal f32 is 2^-126.
constexpr double kMost = 0x1p100, kLeast = 0x1p-100;

// Bounds of the numbers of a constant, NaN left out.
struct Span {
  double low = HUGE_VAL, high = -HUGE_VAL;
  bool whole = true;  // all numbers are whole
  double Magnitude() const { return std::max({0.0, -low, high}); }
  void Add(double x) {
    if (std::isnan(x)) return;
    low = std::min(low, x);
    high = std::max(high, x);
    whole = whole && std::isfinite(x) && std::floor(x) == x;
  }
};

// Returns the bounds of a result of which the operands' bounds are known, or nothing if they are not known.
std::optional<Span> SpanOfResult(Op op, bool is_float, const std::vector<Span>& in) {
  Span out;
  switch (op) {
    case Op::kCast:
      return is_float ? std::optional(in[0]) : std::nullopt;
    case Op::kReshape:
    case Op::kTranspose:
    case Op::kBroadcastTo:
      return in[0];
    case Op::kSqrt:
      for (double a : {in[0].low, in[0].high}) out.Add(std::sqrt(std::max(0.0, a)));
      break;
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kDiv:
      for (double a : {in[0].low, in[0].high}) {
        for (double b : {in[1].low, in[1].high})
          out.Add(op == Op::kAdd ? a + b : op == Op::kSub ? a - b : op == Op::kMul ? a * b : a / b);
      }
      break;
    default:
      return std::nullopt;
  }
  out.whole = op != Op::kDiv && op != Op::kSqrt && std::ranges::all_of(in, [](const Span& s) { return s.whole; });
  return out;
}

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
    ValueId shift = Emit(Op::kMul, {p[3], s}, node.name), t = Emit(Op::kSub, {p[2], shift}, node.name);
    // As ONNX defines the operator, if s is no ordinary number, as with a variance and an epsilon of 0.
    if (Overflows(s) || Vanishes(s) || Overflows(shift)) {
      ValueId ratio = Emit(Op::kDiv, {Emit(Op::kSub, {x, p[3]}, node.name), deviation}, node.name);
      return Emit(Op::kAdd, {Emit(Op::kMul, {ratio, p[1]}, node.name), p[2]}, node.name);
    }
    if (!IsConstant(s)) return Emit(Op::kAdd, {Emit(Op::kMul, {x, s}, node.name), t}, node.name);
    ValueId y = Scaled(x, s, node.name);
    return IsConstant(t) ? Shifted(y, t, node.name) : Emit(Op::kAdd, {y, t}, node.name);
  }

  ValueId Emit(Op op, std::vector<ValueId> inputs, const std::string& name) {
    return builder().Must(op, std::move(inputs), {}, name);
  }

  // Returns the bounds of a new value, or nothing if they are not known: it depends on inputs, or on constants by many
  // operators.
  std::optional<Span> SpanOf(ValueId v, int depth = 0) {
    constexpr int kDeepest = 16;
    if (auto known = spans_.find(v); known != spans_.end()) return known->second;
    if (depth > kDeepest || !IsConstant(v)) return std::nullopt;
    return spans_[v] = FreshSpanOf(v, depth);
  }
  std::optional<Span> FreshSpanOf(ValueId v, int depth) {
    const Graph& graph = builder().graph();
    if (const Constant* c = graph.FindConstant(v)) {
      if (!c->data) return std::nullopt;
      Span span;
      const TensorValue value = graph.ConstantValue(*c);
      for (int64_t i = 0; i < value.spec.NumElements(); ++i) span.Add(value.Number(i));
      return span;
    }
    const Node& node = *graph.Producer(v);
    std::vector<Span> in;
    for (ValueId input : node.inputs) {
      const std::optional<Span> span = SpanOf(input, depth + 1);
      if (!span) return std::nullopt;
      in.push_back(*span);
    }
    return SpanOfResult(node.op, graph.Spec(v).dtype.IsFloat(), in);
  }
  bool Overflows(ValueId v) {
    const std::optional<Span> span = SpanOf(v);
    return span && !(span->Magnitude() <= kMost);
  }

  bool Vanishes(ValueId v) {
    const std::optional<Span> span = SpanOf(v);
    return span && span->Magnitude() > 0 && span->Magnitude() < kLeast;
  }

  // Returns true if constants times s stay ordinary numbers, as far as is known. Weights that are whole numbers stay as
  // they are: their sums are often exact, as in networks of small integers that are stored as floats.
  bool KeepsNumbers(ValueId constants, ValueId s, bool weights) {
    const std::optional<Span> a = SpanOf(constants), b = SpanOf(s);
    if (!a || !b) return true;
    const double most = a->Magnitude() * b->Magnitude();
    if (!(most <= kMost)) return false;
    if (!weights) return true;
    const bool vanish = a->Magnitude() > 0 && b->Magnitude() > 0 && most < kLeast;
    return !vanish && (!a->whole || b->whole);
  }

  // Returns true if s has one element, or one per index of `axis` of a tensor of this shape.
  static bool PerChannel(const Shape& s, const Shape& shape, size_t axis) {
    int64_t elements = TensorSpec{DType::Float(32), s}.NumElements();
    if (elements == 1) return true;
    size_t skip = shape.size() - s.size();
    return axis >= skip && s[axis - skip] == shape[axis] && elements == shape[axis];
  }

  // Returns the axis of v's output channels if v is a product with a constant weight, and has one reader; else
  // -1. Weights that the model stores in 16 bits stay as they are: packages store them so, and products read them so.
  int FoldableAxis(ValueId v) {
    const Node* node = Producer(v);
    if (!node || !UsedOnce(v)) return -1;
    const auto* conv = std::get_if<ConvAttrs>(&node->attrs);
    if ((!conv && node->op != Op::kMatmul) || !IsConstant(node->inputs[1])) return -1;
    if (WidenedFrom(builder().graph(), node->inputs[1])) return -1;
    return !conv || conv->layout == Layout::kNCHW ? 1 : builder().Spec(v).rank() - 1;
  }

  // Returns true if a multiplication of v by the constant s can move into the weight of the product that makes v.
  bool CanScale(ValueId v, ValueId s) {
    int axis = FoldableAxis(v);
    const Node* node = Producer(v);
    if (axis >= 0)
      return PerChannel(builder().Spec(s).shape, builder().Spec(v).shape, axis) &&
             KeepsNumbers(node->inputs[1], s, true);
    if (!node || node->op != Op::kAdd || !UsedOnce(v) || !IsConstant(node->inputs[1])) return false;
    const ValueId sum = node->inputs[0], shift = node->inputs[1];
    return KeepsNumbers(shift, s, false) && CanScale(sum, s);
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
      if (!Overflows(first) && !Overflows(t)) return Emit(Op::kAdd, {x, Emit(Op::kAdd, {first, t}, name)}, name);
    }
    return Emit(Op::kAdd, {v, t}, name);
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<int> uses_;
  std::vector<int> new_uses_;
  std::vector<bool> constant_;
  std::map<ValueId, std::optional<Span>> spans_;  // of new values
};

}  // namespace

Result<Graph> FoldBatchNorm(const Graph& graph, const PassEnv& env) {
  return DropDeadCode(BatchNormFolder(graph).Run(), env);
}

}  // namespace autotune::graph
