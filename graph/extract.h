// Task extraction: the kernels of a fused graph, each once. Thread-safe. Knows nothing of targets: a task hash names
// the computation alone.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "support/hash.h"

namespace autotune::graph {

struct Task {
  std::shared_ptr<const Graph> subgraph;  // the body of a fused node
  std::string text;                       // canonical
  Hash128 hash;                           // of the text
  int weight = 0;                         // occurrences in the graph
  std::vector<int> nodes;                 // indices into Graph::nodes
  std::vector<std::string> names;         // of those nodes, as the model calls them

  // "conv2d_add_relu": the operators in order; with the shapes this is what people recognise a task by.
  std::string Label() const;
};

// In order of first occurrence.
std::vector<Task> ExtractTasks(const Graph& fused);

// The text that is hashed: operators, attributes, shapes, element types, which inputs are constant, and the value of
// every one-element constant in the body; no names, no other value. The same on every machine. It begins with a
// version; changing anything it prints means a new version, because records are looked up by its hash.
std::string CanonicalText(const Graph& subgraph);

// "conv2d_add_relu".
std::string SubgraphLabel(const Graph& subgraph);

}  // namespace autotune::graph
