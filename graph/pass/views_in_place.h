// Slices and transposes that become part of the kernels that read them, and the sums that correct products of bytes.
// Internal to graph passes; not thread-safe. Borrows the graph, which must outlive it.
#pragma once
#include <vector>

#include "graph/graph.h"

namespace autotune::graph {

// Who reads each value of a graph.
class Readers {
 public:
  explicit Readers(const Graph& graph);
  // Returns the nodes that read the value, in order, each once.
  const std::vector<int>& Of(ValueId v) const { return nodes_[v]; }
  bool IsOutput(ValueId v) const { return is_output_[v]; }
  // Returns the only node that reads the value; -1: others do, too, or none, or the graph returns it.
  int OnlyOneOf(ValueId v) const { return !is_output_[v] && nodes_[v].size() == 1 ? nodes_[v][0] : -1; }

 private:
  std::vector<std::vector<int>> nodes_;  // by value
  std::vector<bool> is_output_;
};

// Returns true if the node only widens bytes for a sum of them, such as the correction of a product by a zero point.
bool WidensForSum(const Graph& graph, const Readers& readers, int node);

// Returns true if the node makes a sum of bytes, or if it is arithmetic of such a sum and single numbers: what corrects
// a product by a zero point.
bool MakesSumOfBytes(const Graph& graph, const Readers& readers, int node);

// Returns true if the last dimension of the transpose is that of its operand.
bool KeepsRows(const Node& transpose);

class ViewsInPlace {
 public:
  ViewsInPlace(const Graph& graph, const Readers& readers)
      : graph_(graph), readers_(readers), is_in_place_(graph.nodes.size(), false) {}

  // Marks slices of rows that only element-wise nodes read. These nodes can read the rows in the tensor itself.
  // Examples are the gates of a recurrent cell and the halves of a gated unit. `of_sums`: also marks transposes of rows
  // that only sums of bytes read.
  void MarkRows(bool of_sums);

  // Marks the view that makes `v` if it is a slice, or a transpose that keeps the last dimension of its operand among
  // its `innermost` last dimensions, and if one node reads it beside sums of bytes. Marks the view before it, too.
  void MarkOperand(ValueId v, int innermost);

  bool Has(int node) const { return is_in_place_[node]; }
  const std::vector<bool>& by_node() const { return is_in_place_; }

 private:
  bool IsOfRows(const Node& node, bool of_sums) const;
  int64_t SpreadOf(const Node& transpose) const;

  const Graph& graph_;
  const Readers& readers_;
  std::vector<bool> is_in_place_;  // by node
};

}  // namespace autotune::graph
