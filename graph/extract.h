// Task extraction: finds the distinct kernels of a fused graph. Thread-safe. Independent of targets: a task's hash
// identifies the computation alone.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "support/hash.h"

namespace autotune::graph {

struct Task {
  std::shared_ptr<const Graph> subgraph;  // the body of a fused node
  std::string text;                       // CanonicalText of the subgraph
  Hash128 hash;                           // hash of `text`
  int weight = 0;                         // occurrences in the graph
  std::vector<int> nodes;                 // indices into Graph::nodes
  std::vector<std::string> names;         // the model's names of these nodes

  // Returns the operators in order: "conv2d_add_relu". Tables show it beside the shapes.
  std::string Label() const;
};

// Returns the tasks in the order of their first occurrence.
std::vector<Task> ExtractTasks(const Graph& fused);

// Returns the text that is hashed: operators, attributes, shapes, element types, which inputs are constant, and the
// value of every one-element constant in the body. It has no names and no other values, and is the same on every
// machine. It begins with a version, which must change whenever the text does: records are looked up by its hash.
std::string CanonicalText(const Graph& subgraph);

// Returns the hash of a text that is equal for subgraphs that differ only in what no schedule depends on: the
// one-element constants that element-wise sums, products, minima and maxima take, such as the scales and zero points of
// a quantized layer, the bounds of a clip, the number of a padding that is not 0, and the signs of bytes that no
// product or window reads.
Hash128 FamilyOf(const Graph& subgraph);

// Returns the operators in order: "conv2d_add_relu". Leaves out those of single numbers that the kernel computes first
// (graph/pass/repeat_scalars.cc), unless there are no others.
std::string SubgraphLabel(const Graph& subgraph);

}  // namespace autotune::graph
