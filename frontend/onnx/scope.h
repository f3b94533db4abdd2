// Scope maps the names of one ONNX graph to values during import. The graph is the network, the body of a function at
// one call, or a subgraph at one run. Internal to frontend/onnx; not thread-safe.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>

#include "frontend/onnx/proto_reader.h"
#include "graph/graph.h"

namespace autotune::onnx_import {

// A tensor: a constant that is known at import, or a value of the graph.
struct Operand {
  std::variant<graph::TensorValue, graph::ValueId> tensor;
  std::optional<graph::ValueId> constant = {};  // the graph's value for a known tensor, once it was added
};

// One call of a function. The network itself counts as a call without attributes.
struct FunctionCall {
  int64_t opset = 0;  // operator set of ONNX's own domain in the body
  std::map<std::string, OnnxAttr> attrs;
  std::set<std::string> omitted;  // inputs of the function that the call omits

  // Returns true if the node refers to attributes of the call or has omitted inputs, so that Resolved changes it.
  bool Concerns(const OnnxNode& node) const;
  // Returns the node without omitted inputs, and with the call's attributes in place of the references to them.
  OnnxNode Resolved(OnnxNode node) const;
};

struct Scope {
  const OnnxGraph* graph;
  const FunctionCall* call;
  Scope* outer = nullptr;  // scope of the graph around a subgraph
  std::map<std::string, Operand>* initializers = nullptr;
  std::map<std::string, Operand> tensors = {};
  std::set<std::string> unknown = {};  // tensors whose nodes could not be imported
  std::set<std::string> exposed = {};  // names that become outputs besides the graph's own (extra_outputs)

  // Returns the tensor of that name in this scope or those around it, or null.
  Operand* Find(const std::string& name);
  // Explains why Find returns null.
  Error WhyAbsent(const std::string& name) const;
  bool IsUnknown(const std::string& name) const;
  bool IsUsed(const std::string& name) const { return graph->used.count(name) > 0 || exposed.count(name) > 0; }
};

}  // namespace autotune::onnx_import
