// Numbers that are dequantized, moved and quantized again stay bytes. Views and maxima move a quarter of the memory
// then, and come before the arithmetic:
//
//   view(f32(x - z) s)  ->  f32(view(x) - z) s
//
// x has 8 bits; s and z are one number each. What is quantized again with the same scale and zero point is x itself.
// Transposes before a quantization come behind it, where they move bytes, too:
//
//   quantize(transpose(y), s, z)  ->  transpose(quantize(y, s, z))
//
// Results stay equal, bit for bit.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <optional>
#include <span>

#include "graph/pass.h"
#include "graph/pass/centered.h"
#include "graph/pass/rewriter.h"

namespace autotune::graph {
namespace {

constexpr DType kFloats = DType::Float(32), kIntegers = DType::Int(32);

// Floats that are f32(bytes - zero) scale.
struct Dequantized {
  ValueId bytes = -1;
  ValueId zero = -1;  // of i32, one number; -1: there is none
  ValueId scale = -1;
};

// Returns whether each window of a maximum has an element, so that no result is the least number of the type.
bool HasNoEmptyWindow(const PoolAttrs& pool) {
  const size_t dims = pool.kernel.size();
  if (pool.ceil_mode || std::ranges::any_of(pool.dilations, [](int64_t d) { return d != 1; })) return false;
  for (size_t i = 0; i < pool.pads.size(); ++i)
    if (pool.pads[i] >= pool.kernel[i % dims]) return false;
  return true;
}

class QuantizedViewsPass {
 public:
  // `transposes`: the kernels of transposes take in arithmetic before them.
  QuantizedViewsPass(const Graph& graph, bool transposes)
      : graph_(graph), uses_(graph.UseCounts()), rewriter_(graph), joins_readers_(graph.values.size(), true) {
    std::vector<bool> is_multiplied(graph.values.size(), false);  // by value: a product or window reads it or a view
    for (const ValueId v : graph.outputs) joins_readers_[v] = false;
    for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
      const bool multiplied =
          KindOf(node->op) == OpKind::kAnchor || (MovesNumbers(*node) && is_multiplied[node->output]);
      // No kernel is made of a transpose that a product reads in place.
      const bool is_kernel = node->op == Op::kTranspose && uses_[node->inputs[0]] == 1 && !multiplied;
      const bool joins = KindOf(node->op) == OpKind::kElementwise || std::holds_alternative<AxesAttrs>(node->attrs) ||
                         (MovesNumbers(*node) && joins_readers_[node->output]) || (transposes && is_kernel);
      for (const ValueId v : node->inputs) {
        joins_readers_[v] = joins_readers_[v] && joins;
        is_multiplied[v] = is_multiplied[v] || multiplied;
      }
    }
  }

  Graph Run() {
    for (const Node& node : graph_.nodes) {
      if (const std::optional<ValueId> same = Requantized(node)) {
        rewriter_.Set(node.output, *same);
      } else if (const std::optional<ValueId> now = ViewOfBytes(node)) {
        rewriter_.Set(node.output, *now);
      } else if (const std::optional<ValueId> bytes = TransposedBytes(node)) {
        rewriter_.Set(node.output, *bytes);
      } else {
        rewriter_.Copy(node);
      }
    }
    return rewriter_.Finish();
  }

 private:
  const Graph& made() const { return rewriter_.builder.graph(); }

  // Returns whether a value is a constant, perhaps moved or converted, as weights are. Looks at each value once: a
  // network may move numbers thousands of times in a row.
  bool IsMovedConstant(ValueId v) {
    for (auto i = static_cast<ValueId>(is_moved_constant_.size()); i <= v; ++i) {
      const Node* node = made().Producer(i);
      is_moved_constant_.push_back(node ? node->inputs.size() == 1 && is_moved_constant_[node->inputs[0]]
                                        : made().FindConstant(i) != nullptr);
    }
    return is_moved_constant_[v];
  }

  std::optional<Dequantized> DequantizedOf(ValueId v) {
    const Graph& graph = made();
    const Node* product = ProducerOf(graph, v, Op::kMul);
    if (!product || graph.Spec(v).dtype != kFloats) return std::nullopt;
    const Node* cast = ProducerOf(graph, product->inputs[0], Op::kCast);
    const bool one_scale = graph.Spec(product->inputs[1]).NumElements() == 1;
    if (!cast || !one_scale || graph.Spec(cast->output).shape != graph.Spec(v).shape) return std::nullopt;
    const std::optional<Centered> centered = CenteredOf(graph, cast->inputs[0]);
    if (!centered || !centered->views.empty() || IsMovedConstant(centered->bytes)) return std::nullopt;
    if (centered->zero >= 0 && graph.Spec(centered->zero).NumElements() != 1) return std::nullopt;
    return Dequantized{centered->bytes, centered->zero, product->inputs[1]};
  }

  // Returns whether each number of the result is one of the operand.
  static bool MovesNumbers(const Node& node) {
    const bool is_pool = node.op == Op::kMaxPool2d || node.op == Op::kMaxPool3d;
    if (is_pool) return HasNoEmptyWindow(std::get<PoolAttrs>(node.attrs));
    return node.op == Op::kReshape || node.op == Op::kTranspose || node.op == Op::kSlice || node.op == Op::kBroadcastTo;
  }

  // If the node is a view of dequantized numbers, returns the dequantized view of the bytes. The arithmetic must become
  // a part of the kernels that read the result.
  std::optional<ValueId> ViewOfBytes(const Node& node) {
    if (!MovesNumbers(node) || !joins_readers_[node.output]) return std::nullopt;
    const std::optional<Dequantized> x = DequantizedOf(rewriter_.Map(node.inputs[0]));
    if (!x) return std::nullopt;
    if (std::holds_alternative<PoolAttrs>(node.attrs)) {  // a larger byte must be a larger number
      const std::optional<double> scale = NumberOf(made(), x->scale);
      if (!scale || !(*scale > 0) || !std::isfinite(*scale)) return std::nullopt;
      if (!HasSmallZero(made(), {x->bytes, x->zero, {}})) return std::nullopt;  // the difference could wrap
    }
    ValueId y = Must(Op::kCast, {Must(node.op, {x->bytes}, node.attrs, node.name)}, CastAttrs{kIntegers});
    const Shape& shape = made().Spec(y).shape;
    const auto beside = [&](ValueId v) {
      return made().Spec(v).shape.size() <= shape.size() ? v : rewriter_.builder.Reshape(v, {});
    };
    if (x->zero >= 0) y = Must(Op::kSub, {y, beside(x->zero)});
    return Must(Op::kMul, {Must(Op::kCast, {y}, CastAttrs{kFloats}), beside(x->scale)});
  }

  // If the node quantizes what is dequantized with the same scale and zero point, returns the bytes.
  std::optional<ValueId> Requantized(const Node& node) {
    const DType type = graph_.Spec(node.output).dtype;
    if (node.op != Op::kCast || !IsByte(type)) return std::nullopt;
    const std::optional<Rounded> rounded = RoundedOf(graph_, node.inputs[0]);
    const Node* quotient = rounded ? ProducerOf(graph_, rounded->x, Op::kDiv) : nullptr;
    if (!quotient) return std::nullopt;
    const auto x = DequantizedOf(rewriter_.Map(quotient->inputs[0]));
    if (!x || made().Spec(x->bytes).dtype != type || made().Spec(x->bytes).shape != graph_.Spec(node.output).shape)
      return std::nullopt;
    const std::optional<double> scale = NumberOf(graph_, quotient->inputs[1]), old = NumberOf(made(), x->scale);
    const std::optional<double> zero = NumberOf(graph_, rounded->zero), low = NumberOf(graph_, rounded->low),
                                high = NumberOf(graph_, rounded->high);
    const std::optional<double> old_zero = x->zero < 0 ? 0 : NumberOf(made(), x->zero);
    if (!scale || scale != old || !zero || zero != old_zero || !low || !high) return std::nullopt;
    // The product and the quotient each have an error of half a unit in the last place, so (x - z) s / s rounds to
    // x - z if neither is denormal or infinite.
    constexpr double kMostFactor = 255 + 128;
    if (!std::isnormal(static_cast<float>(*scale)) || !(std::abs(*scale) * kMostFactor <= FLT_MAX)) return std::nullopt;
    if (std::abs(*zero) > 255) return std::nullopt;
    const double count = std::ldexp(1.0, type.bits), least_byte = type.IsSigned() ? -count / 2 : 0;
    if (*low > least_byte || *high < least_byte + count - 1) return std::nullopt;
    return x->bytes;
  }

  // If the node ends the quantization of a transpose that nothing else reads, by one scale and zero point, returns the
  // transpose of the quantized operand.
  std::optional<ValueId> TransposedBytes(const Node& node) {
    if (node.op != Op::kCast || !IsByte(graph_.Spec(node.output).dtype)) return std::nullopt;
    const std::optional<Rounded> rounded = RoundedOf(graph_, node.inputs[0]);
    const Node* quotient = rounded ? graph_.Producer(rounded->x) : nullptr;
    if (!quotient || (quotient->op != Op::kDiv && quotient->op != Op::kMul)) return std::nullopt;
    const Node* transpose = ProducerOf(graph_, quotient->inputs[0], Op::kTranspose);
    if (!transpose) return std::nullopt;
    // The values behind the transpose, each of which only the next one reads, and what they are combined with.
    const ValueId values[] = {transpose->output,  rounded->x,         rounded->rounded,
                              rounded->behind[0], rounded->behind[1], rounded->behind[2]};
    const ValueId numbers[] = {quotient->inputs[1], rounded->zero, rounded->low, rounded->high};
    if (std::ranges::any_of(values, [&](ValueId v) { return uses_[v] != 1; })) return std::nullopt;
    if (std::ranges::any_of(numbers, [&](ValueId v) { return graph_.Spec(v).NumElements() != 1; })) return std::nullopt;
    ValueId y = rewriter_.Map(transpose->inputs[0]);
    for (const ValueId v : std::span(values).subspan(1)) {
      const Node& step = *graph_.Producer(v);
      std::vector<ValueId> inputs = {y};
      if (step.inputs.size() > 1) inputs.push_back(rewriter_.Map(step.inputs[1]));
      y = Must(step.op, inputs, step.attrs, step.name);
    }
    return Must(Op::kTranspose, {Must(Op::kCast, {y}, node.attrs, node.name)}, transpose->attrs, transpose->name);
  }

  ValueId Must(Op op, std::vector<ValueId> inputs, Attrs attrs = {}, const std::string& name = "") {
    return rewriter_.builder.Must(op, std::move(inputs), std::move(attrs), name);
  }

  const Graph& graph_;
  const std::vector<int> uses_;  // by value
  Rewriter rewriter_;
  // By value: the kernels of all its readers take in arithmetic before it: they compute element by element, or move its
  // numbers to such readers, or transpose.
  std::vector<bool> joins_readers_;
  std::vector<bool> is_moved_constant_;  // by value of made(), up to the last one that was asked for
};

}  // namespace

Result<Graph> QuantizedViews(const Graph& graph, const PassEnv& env) {
  return DropDeadCode(QuantizedViewsPass(graph, /*transposes=*/false).Run(), env);
}

Result<Graph> QuantizedViewsOfKernels(const Graph& graph, const PassEnv& env) {
  return DropDeadCode(QuantizedViewsPass(graph, /*transposes=*/true).Run(), env);
}

}  // namespace autotune::graph
