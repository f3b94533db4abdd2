// A slow and simple reference that defines the meaning of graphs: one naive loop nest per operator, in doubles. Tests
// compare the results of the graph passes, the importer and the compiler with this reference, whose operators share no
// code with theirs.
#pragma once
#include <string>
#include <vector>

#include "tests/close.h"
#include "tests/graph/reference_ops.h"

namespace autotune::reference {

// Computes the output of one node. Numbers of an integer type are not wrapped yet.
Tensor EvaluateNode(const Graph& graph, const Node& node, const std::vector<const Tensor*>& in);

// Computes the graph's outputs. `inputs`: values of the graph's inputs, then of its constants without data.
std::vector<Tensor> Evaluate(const Graph& graph, const std::vector<Tensor>& inputs);

// For graphs of several operators: rounded constants change logits, and so the softmax of large ones.
inline constexpr Tolerance kOfGraphs = {.rtol = 1e-4, .atol = 1e-5};

// Returns "" if `got` is right where `want` is expected (tests/close.h), else a description of the difference. The
// element type is that of `want`.
std::string Mismatch(const Tensor& got, const Tensor& want, const Tolerance& tolerance = kOfGraphs, double bound = 0);

}  // namespace autotune::reference
