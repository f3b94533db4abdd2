// Evaluates values that depend on constants alone, such as the shapes, axes, conditions and masks that exported models
// compute. Lowers each operator to a program as for a kernel and interprets the program (ir/interp.h), so the result
// agrees with a kernel's. Meant for few elements: the graph pass fold_constants compiles kernels for large constants.
// Internal to frontend/onnx.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace autotune::onnx_import {

// Evaluates operators on constants and, on demand, values of a graph under construction. Not thread-safe.
class ConstantValues {
 public:
  explicit ConstantValues(const graph::Graph& graph) : graph_(graph) {}

  // Returns the result of one operator on operands that fit it. Returns nothing if the result has no elements, needs
  // integers beyond 2^53 or 16-bit floats, or is undefined (a division by 0). Also returns nothing if the operator has
  // no program, or if the work of all calls together would exceed a second or two.
  std::optional<graph::TensorValue> Evaluate(graph::Op op, const graph::Attrs& attrs,
                                             const std::vector<graph::TensorValue>& operands);
  // Returns the value of `v`, or null if it depends on an input or if Evaluate has no result for it. The pointer is
  // valid as long as this object.
  const graph::TensorValue* Find(graph::ValueId v);

 private:
  // Returns the nodes that `v` depends on and whose values are not known yet, in the graph's order. Returns nothing if
  // one of them depends on an input, or if their operands and results have more elements than the budget allows.
  std::optional<std::vector<int32_t>> NodesBehind(graph::ValueId v) const;

  const graph::Graph& graph_;
  std::map<graph::ValueId, std::optional<graph::TensorValue>> known_;
  int64_t stores_left_ = int64_t{1} << 22;  // budget of interpreted stores; 4 million take a second or two
};

}  // namespace autotune::onnx_import
