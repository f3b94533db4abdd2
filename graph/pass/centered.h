// Recognizes numbers that are rounded to small integers, and small integers minus a zero point, as importers and
// quantizers write them. Internal to graph passes.
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "graph/pass/few_rows.h"
#include "graph/pass/rewriter.h"
#include "ir/dot.h"
#include "support/integer.h"

namespace autotune::graph {

inline constexpr double kExactIntegers = 1 << 24;  // f32 holds all integers up to this magnitude

// Whole numbers of f32 as QuantizeLinear makes them before it converts them to integers: min(max(round(x) + zero, low),
// high). Zero point and bounds may be anything that broadcasts.
struct Rounded {
  ValueId x = -1, rounded = -1, zero = -1, low = -1, high = -1;
  std::array<ValueId, 3> behind = {};  // round(x) + zero, its maximum with low, and the result
};

// Returns nothing if the value is something else.
inline std::optional<Rounded> RoundedOf(const Graph& graph, ValueId v) {
  if (graph.Spec(v).dtype != DType::Float(32)) return std::nullopt;
  const Node* below = ProducerOf(graph, v, Op::kMin);
  const Node* above = below ? ProducerOf(graph, below->inputs[0], Op::kMax) : nullptr;
  const Node* sum = above ? ProducerOf(graph, above->inputs[0], Op::kAdd) : nullptr;
  const Node* round = sum ? ProducerOf(graph, sum->inputs[0], Op::kRound) : nullptr;
  if (!round) return std::nullopt;
  return Rounded{round->inputs[0], round->output,    sum->inputs[1],
                 above->inputs[1], below->inputs[1], {sum->output, above->output, v}};
}

// A tensor of i32: integers of 8 bits, perhaps minus a zero point, perhaps reshaped and transposed. The zero point may
// be any i32.
struct Centered {
  ValueId bytes = -1;
  ValueId zero = -1;               // of i32; -1: there is none
  std::vector<const Node*> views;  // reshapes and transposes from `bytes` to the tensor, in this order
};

// Returns the number of terms of each sum of a product of matrices or a convolution.
inline int64_t TermsOf(const Graph& graph, const Node& node) {
  const auto* conv = std::get_if<ConvAttrs>(&node.attrs);
  if (!conv) return graph.Spec(node.inputs[0]).shape.back();
  const TensorSpec& weights = graph.Spec(node.inputs[1]);
  return weights.NumElements() / (conv->layout == Layout::kNCHW ? weights.shape.front() : weights.shape.back());
}

// Returns the number of terms that lie side by side in the data of a product: the columns of a matrix, or the channels
// of an image that a filter reads.
inline int64_t NeighboursOf(const Graph& graph, const Node& node) {
  const auto* conv = std::get_if<ConvAttrs>(&node.attrs);
  const Shape& data = graph.Spec(node.inputs[0]).shape;
  if (!conv) return data.back();
  return (conv->layout == Layout::kNCHW ? data[1] : data.back()) / conv->groups;
}

// Fewest terms of a sum for which dot products pay, beside a correction by a zero point or a conversion [chosen].
inline constexpr int64_t kFewestTerms = 4 * kByteGroup;

// Returns how many zeros make a number of terms a whole number of groups.
inline int64_t ZerosBehind(int64_t terms, int64_t group) { return CeilDiv(terms, group) * group - terms; }

// Returns the numbers of weights of this shape as a tensor with zeros behind the terms, its last dimension but one.
inline TensorValue WithZerosBehindTerms(DType type, Shape shape, const std::vector<double>& numbers, int64_t group) {
  const int64_t columns = shape.back(), terms = shape[shape.size() - 2], zeros = ZerosBehind(terms, group);
  const auto length = static_cast<std::ptrdiff_t>(terms * columns);
  shape[shape.size() - 2] += zeros;
  std::vector<double> all;
  for (auto from = numbers.begin(); from != numbers.end(); from += length) {
    all.insert(all.end(), from, from + length);
    all.insert(all.end(), static_cast<size_t>(zeros * columns), 0);
  }
  return TensorValue::FromNumbers(type, shape, all);
}

// Returns whether dot products of groups of so many terms suit the sums of a product. Terms that are no whole number of
// groups become one by a copy with zeros behind them: its cost must be little, and most terms must be no zeros. Each
// group of channels of a convolution is a product of its own, whose filters must fill vectors.
inline bool SumsInGroups(const Graph& graph, const Node& node, int64_t group = kByteGroup) {
  constexpr int64_t kWorthCopying = 64;  // columns of the result
  constexpr int64_t kFewestFilters = 8;  // of a group of channels, a vector of AVX2 [chosen]
  const auto* conv = std::get_if<ConvAttrs>(&node.attrs);
  const int64_t neighbours = NeighboursOf(graph, node), columns = graph.Spec(node.output).shape.back();
  if (TermsOf(graph, node) < kFewestTerms) return false;
  if (conv && conv->groups > 1) {
    const Shape& result = graph.Spec(node.output).shape;
    const int64_t filters = (conv->layout == Layout::kNCHW ? result[1] : result.back()) / conv->groups;
    return neighbours % group == 0 && filters >= kFewestFilters;
  }
  return neighbours % group == 0 || (2 * neighbours >= group && (conv || columns >= kWorthCopying));
}

// Returns whether dot products of words suit the product of a matrix or an image with constants, where the target has
// none of bytes. Products of few rows take as long as their weights need from memory.
inline bool SuitsWords(const Graph& graph, const Node& node) {
  // Of the three channels of a photo, words take 0.9 to 1.4 times as long as floats, which need no copy with zeros;
  // of 16 channels 0.9 times [measured].
  constexpr int64_t kFewestNeighbours = 8;
  return NeighboursOf(graph, node) >= kFewestNeighbours && SumsInGroups(graph, node, kWordGroup) &&
         !IsOfFewRows(graph, node);
}

// Returns whether the node multiplies matrices that are both computed, and whether dot products of bytes suit its sums.
// The second matrix is packed while the kernel runs, and its zero point costs sums, so that enough rows must share
// them.
inline bool IsComputedProductOfGroups(const Graph& graph, const Node& node) {
  constexpr int64_t kFewestRows = 32;  // 16 rows of a product of queries and keys take 1.2 times as long as floats, 64
                                       // rows 0.65 times [measured]
  constexpr int64_t kFewestColumns = 32;  // of a result whose terms need zeros behind them: 32 columns of sums over
                                          // 50 keys take 0.98 of the time of floats [measured]
  if (node.op != Op::kMatmul && node.op != Op::kBatchMatmul) return false;
  for (const ValueId v : node.inputs)
    if (graph.Spec(v).rank() < 2 || IsOfConstants(graph, v)) return false;
  const Shape& rows = graph.Spec(node.inputs[0]).shape;
  if (rows[rows.size() - 2] < kFewestRows) return false;
  const bool whole = NeighboursOf(graph, node) % kByteGroup == 0;
  return TermsOf(graph, node) >= kFewestTerms && (whole || graph.Spec(node.output).shape.back() >= kFewestColumns);
}

// Returns the constant whose numbers a value has, in another shape or a wider integer type; null: there is none.
inline const Constant* ConstantBehind(const Graph& graph, ValueId v) {
  while (const Node* node = graph.Producer(v)) {
    if (node->op != Op::kCast && node->op != Op::kReshape) return nullptr;
    const DType from = graph.Spec(node->inputs[0]).dtype, to = graph.Spec(v).dtype;
    const bool wider = from.IsInt() && to.IsInt() && to.IsSigned() && to.bits > from.bits;
    if (from != to && !wider) return nullptr;
    v = node->inputs[0];
  }
  const Constant* c = graph.FindConstant(v);
  return c && c->data ? c : nullptr;
}

// Returns whether the zero point is known to be a number of 8 bits, with or without a sign, as in ONNX: a constant, or
// a conversion of such a number. Then the integers minus it have a magnitude of at most 255 + 128.
inline bool HasSmallZero(const Graph& graph, const Centered& x) {
  ValueId v = x.zero;
  while (v >= 0 && !IsByte(graph.Spec(v).dtype)) {
    const Node* node = graph.Producer(v);
    if (!node || (node->op != Op::kCast && node->op != Op::kReshape)) break;
    v = node->inputs[0];
  }
  if (v < 0 || IsByte(graph.Spec(v).dtype)) return true;
  const Constant* zeros = graph.FindConstant(v);
  if (!zeros || !zeros->data) return false;
  const TensorValue value = graph.ConstantValue(*zeros);
  for (int64_t i = 0; i < value.spec.NumElements(); ++i)
    if (value.Number(i) < -128 || value.Number(i) > 255) return false;
  return true;
}

// Returns nothing if the value is something else. If a view follows the zero point, the latter is one number.
inline std::optional<Centered> CenteredOf(const Graph& graph, ValueId v) {
  const Node* node = graph.Producer(v);
  if (!node || graph.Spec(v).dtype != DType::Int(32)) return std::nullopt;
  if (node->op == Op::kCast && IsByte(graph.Spec(node->inputs[0]).dtype)) return Centered{node->inputs[0], -1, {}};
  if (node->op == Op::kReshape || node->op == Op::kTranspose) {
    std::optional<Centered> inner = CenteredOf(graph, node->inputs[0]);
    if (!inner || (inner->zero >= 0 && graph.Spec(inner->zero).NumElements() != 1)) return std::nullopt;
    inner->views.push_back(node);
    return inner;
  }
  if (node->op != Op::kSub || graph.Spec(node->inputs[0]).shape != graph.Spec(v).shape) return std::nullopt;
  std::optional<Centered> inner = CenteredOf(graph, node->inputs[0]);
  if (!inner || inner->zero >= 0) return std::nullopt;
  inner->zero = node->inputs[1];
  return inner;
}

}  // namespace autotune::graph
