// Recognizes floats of 16 bits that the graph widens to f32. Internal to graph passes.
#pragma once
#include <optional>

#include "graph/graph.h"

namespace autotune::graph {

// Returns the type of the 16-bit floats whose conversion to f32 the value is, perhaps through views; nothing if it is
// something else.
inline std::optional<DType> WidenedFrom(const Graph& graph, ValueId v) {
  const Node* node = graph.Producer(v);
  if (!node || graph.Spec(v).dtype != DType::Float(32)) return std::nullopt;
  if (node->op == Op::kCast) {
    const DType type = graph.Spec(node->inputs[0]).dtype;
    return type.IsHalf() ? std::optional(type) : std::nullopt;
  }
  const bool is_view = node->op == Op::kReshape || node->op == Op::kTranspose || node->op == Op::kSlice;
  return is_view ? WidenedFrom(graph, node->inputs[0]) : std::nullopt;
}

}  // namespace autotune::graph
