// Scope: the values that the names of one ONNX graph stand for during import. The graph is the network, the body of a
// function at one call, or a subgraph at one run. Internal to frontend/onnx; not thread-safe.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>

#include "frontend/onnx/proto_reader.h"
#include "graph/graph.h"

namespace autotune::onnx_import {

// A tensor: known at import, or a value of the graph.
struct Operand {
  std::variant<graph::TensorValue, graph::ValueId> tensor;
  std::optional<graph::ValueId> constant = {};  // of the graph, once a known one has become one
};

// One call of a function; of the network itself, one without attributes.
struct FunctionCall {
  int64_t opset = 0;  // of ONNX's own domain, in the body
  std::map<std::string, OnnxAttr> attrs;
  std::set<std::string> omitted;  // the function's inputs that the call leaves out

  bool Concerns(const OnnxNode& node) const;
  // The node with the call's attributes in the places of references to them, and without omitted inputs.
  OnnxNode Resolved(OnnxNode node) const;
};

struct Scope {
  const OnnxGraph* graph;
  const FunctionCall* call;
  Scope* outer = nullptr;  // around a subgraph
  std::map<std::string, Operand>* initializers = nullptr;
  std::map<std::string, Operand> tensors = {};
  std::set<std::string> unknown = {};  // results of nodes that could not be imported
  std::set<std::string> exposed = {};  // what is read from outside beside the graph's outputs

  // Null if there is none, here and in the scopes around.
  Operand* Find(const std::string& name);
  // Why Find has none.
  Error WhyAbsent(const std::string& name) const;
  bool IsUnknown(const std::string& name) const;
  bool IsUsed(const std::string& name) const { return graph->used.count(name) > 0 || exposed.count(name) > 0; }
};

}  // namespace autotune::onnx_import
