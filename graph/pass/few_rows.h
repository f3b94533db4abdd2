// Products of few rows, which take as long as their weights need from memory. Internal to graph passes.
#pragma once
#include "graph/graph.h"

namespace autotune::graph {

// Returns whether a matrix product reads each weight for so few rows that converting it in vectors costs no time.
inline bool IsOfFewRows(const Graph& graph, const Node& node) {
  constexpr int64_t kMostRows = 4;  // as StreamsRule has them for weights of any size [chosen]
  return node.op == Op::kMatmul && graph.Spec(node.output).shape[0] <= kMostRows;
}

}  // namespace autotune::graph
