// Makes the body of a group of fused nodes: a graph of its own, which the network calls. Internal to graph passes; not
// thread-safe.
#pragma once
#include <vector>

#include "graph/graph.h"
#include "graph/pass/rewriter.h"

namespace autotune::graph {

// The nodes of a group in order, by their indices in the graph; the last node has the group's output. The other fields
// are by node of the graph.
struct NodeGroup {
  const std::vector<int>& nodes;
  const std::vector<bool>& read_in_place;  // slices and transposes that are part of the groups that read them
  const std::vector<bool>& is_absorbed;    // element-wise producers of operands that a group has taken in
};

// Returns true if the node is a matrix product of floats whose right operand is computed, not constant, and has
// several columns.
bool IsComputedProduct(const Graph& graph, const Node& node);

// Adds to `rewriter` a call of the group's body. The body includes the views that the group reads in place. Equal
// kernels get equal bodies, wherever their operands come from.
void EmitGroup(const Graph& graph, const NodeGroup& group, Rewriter& rewriter);

}  // namespace autotune::graph
