// The numbers that an integer tensor can have. Internal to graph passes.
#pragma once
#include <algorithm>
#include <cmath>
#include <optional>

#include "graph/graph.h"

namespace autotune::graph {

struct Range {
  double low = 0, high = 0;
  double Magnitude() const { return std::max(-low, high); }
};

inline Range Hull(const Range& a, const Range& b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

inline std::optional<Range> RangeOfConstant(const Graph& graph, const Constant& c) {
  const TensorValue value = graph.ConstantValue(c);
  const int64_t count = value.spec.NumElements();
  Range range{value.Number(0), value.Number(0)};
  for (int64_t i = 1; i < count; ++i) range = Hull(range, {value.Number(i), value.Number(i)});
  return range;
}

inline std::optional<Range> RangeOf(const Graph& graph, ValueId v, int depth = 0);

// Returns the range of the node's result, or nothing if it follows from no range of its operands.
inline std::optional<Range> RangeOfNode(const Graph& graph, const Node& node, int depth) {
  std::optional<Range> a = RangeOf(graph, node.inputs[0], depth);
  if (!a) return std::nullopt;
  switch (node.op) {
    case Op::kCast: {
      const DType to = graph.Spec(node.output).dtype;  // which must hold every number
      const double most = std::ldexp(1.0, to.bits - 1);
      return to.IsSigned() && a->Magnitude() < most ? a : std::nullopt;
    }
    case Op::kSub: {
      const std::optional<Range> b = RangeOf(graph, node.inputs[1], depth);
      if (!b) return std::nullopt;
      const Range range = {a->low - b->high, a->high - b->low};
      const DType type = graph.Spec(node.output).dtype;  // differences beyond it wrap around
      const double most = std::ldexp(1.0, type.IsSigned() ? type.bits - 1 : type.bits);
      const bool fits = range.low >= (type.IsSigned() ? -most : 0) && range.high < most;
      return fits ? std::optional(range) : std::nullopt;
    }
    case Op::kReshape:
    case Op::kTranspose:
    case Op::kSlice:
    case Op::kBroadcastTo:
    case Op::kMaxPool2d:
    case Op::kMaxPool3d:
      return a;
    default:
      return std::nullopt;
  }
}

// Returns the least and the greatest number of an integer tensor, or nothing if its type alone bounds it loosely.
inline std::optional<Range> RangeOf(const Graph& graph, ValueId v, int depth) {
  constexpr int kDeepest = 16;  // most nodes between a product and the conversion of its operand [chosen]
  const DType type = graph.Spec(v).dtype;
  if (!type.IsInt() || depth > kDeepest) return std::nullopt;
  if (const Constant* c = graph.FindConstant(v); c && c->data) return RangeOfConstant(graph, *c);
  if (const Node* node = graph.Producer(v)) {
    if (std::optional<Range> range = RangeOfNode(graph, *node, depth + 1)) return range;
  }
  if (type.bits > 8) return std::nullopt;
  const double count = std::ldexp(1.0, type.bits);
  return type.IsSigned() ? Range{-count / 2, count / 2 - 1} : Range{0, count - 1};
}

}  // namespace autotune::graph
