// Recognizes small integers minus a zero point, as importers and quantizers write them. Internal to graph passes.
#pragma once
#include <optional>

#include "graph/graph.h"
#include "ir/dot.h"

namespace autotune::graph {

// A tensor of i32: small integers, perhaps minus a zero point, perhaps in another shape than theirs.
struct Centered {
  ValueId bytes = -1;
  ValueId zero = -1;  // of i32; -1: there is none
};

// Returns whether sums of so many products of bytes are worth dot products: whole groups, and so many of them that the
// correction by a zero point costs little beside them [chosen].
inline bool SumsInGroups(int64_t terms) { return terms % kDotGroup == 0 && terms >= 4 * kDotGroup; }

// Returns nothing if the value is something else. If the shape has changed, the zero point is one number.
inline std::optional<Centered> CenteredOf(const Graph& graph, ValueId v) {
  const Node* node = graph.Producer(v);
  if (!node || graph.Spec(v).dtype != DType::Int(32)) return std::nullopt;
  if (node->op == Op::kCast && IsDotOperand(graph.Spec(node->inputs[0]).dtype)) return Centered{node->inputs[0], -1};
  if (node->op == Op::kReshape) {
    const std::optional<Centered> inner = CenteredOf(graph, node->inputs[0]);
    const bool whole = inner && (inner->zero < 0 || graph.Spec(inner->zero).NumElements() == 1);
    return whole ? inner : std::nullopt;
  }
  if (node->op != Op::kSub || graph.Spec(node->inputs[0]).shape != graph.Spec(v).shape) return std::nullopt;
  std::optional<Centered> inner = CenteredOf(graph, node->inputs[0]);
  if (!inner || inner->zero >= 0) return std::nullopt;
  inner->zero = node->inputs[1];
  return inner;
}

}  // namespace autotune::graph
