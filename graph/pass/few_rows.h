// Products of few rows, which take as long as their weights need from memory. Internal to graph passes.
#pragma once
#include "graph/graph.h"
#include "topi/matmul.h"

namespace autotune::graph {

// Returns whether a matrix product reads each weight for so few rows that converting it in vectors costs no time.
inline bool IsOfFewRows(const Graph& graph, const Node& node) {
  return node.op == Op::kMatmul && graph.Spec(node.output).shape[0] <= topi::kMostStreamedRows;
}

}  // namespace autotune::graph
