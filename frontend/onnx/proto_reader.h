// ONNX models as plain structs, read from protobuf messages; no other code uses these messages. Values; thread-safe.
// Refuses only damaged models: the importer decides which operators and types are supported.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "graph/tensor_value.h"
#include "support/result.h"

namespace autotune::onnx_import {

struct OnnxGraph;

struct OnnxAttr {
  std::optional<int64_t> i;
  std::optional<float> f;
  std::optional<std::string> s;
  std::optional<std::vector<int64_t>> ints;
  std::optional<std::vector<float>> floats;
  std::optional<std::vector<std::string>> strings;
  std::optional<graph::TensorValue> tensor;
  std::shared_ptr<const OnnxGraph> graph;
  std::string ref;  // in a function: the attribute of the call that stands here
};

// node 'conv1', or node #7 if it has no name
std::string NodeLabel(const std::string& name, int index);

struct OnnxNode {
  int index = 0;
  std::string op_type, domain, overload, name;  // ONNX's own domain is ""
  std::vector<std::string> inputs, outputs;     // "" where an optional one is left out
  std::map<std::string, OnnxAttr> attrs;
  std::set<std::string> captured;  // tensors from outside that the node's subgraphs read
  std::optional<Error> error;      // an attribute that cannot be read

  // "Conv (node 'conv1')"; a domain other than ONNX's precedes the operator: "com.microsoft.Gelu (node #2)".
  std::string Text() const {
    return (domain.empty() ? "" : domain + ".") + op_type + " (" + NodeLabel(name, index) + ")";
  }
};

struct OnnxDim {
  int64_t extent = -1;  // -1: symbolic
  std::string symbol;   // may be empty
};

struct OnnxValueInfo {
  std::string name;
  std::string type;            // "float32", "int64", "sequence", ...
  std::optional<DType> dtype;  // of a tensor of numbers or bools
  std::optional<std::vector<OnnxDim>> dims;
};

// The network, the subgraph of a node, or the body of a function.
struct OnnxGraph {
  std::string name;
  std::vector<OnnxNode> nodes;
  std::map<std::string, Result<graph::TensorValue>> initializers;  // an error: of a type that graphs do not hold
  std::vector<OnnxValueInfo> inputs;                               // of the network: without initializers
  std::vector<OnnxValueInfo> outputs;
  std::set<std::string> used;  // what its nodes, their subgraphs and its outputs read
};

// Versions of operator sets by domain.
using OnnxOpsets = std::map<std::string, int64_t>;

struct OnnxFunction {
  std::string domain, name, overload;
  std::map<std::string, OnnxAttr> defaults;  // of attributes that calls may leave out
  OnnxOpsets opsets;
  OnnxGraph body;  // inputs and outputs without types

  std::string Text() const {
    return (domain.empty() ? "" : domain + ".") + name + (overload.empty() ? "" : ":" + overload);
  }
};

struct OnnxModel {
  OnnxOpsets opsets;
  int64_t ir_version = 0;  // of the file format
  OnnxGraph graph;
  std::map<std::tuple<std::string, std::string, std::string>, OnnxFunction> functions;  // domain, name, overload

  // The function that a node calls, or null.
  const OnnxFunction* FindFunction(const OnnxNode& node) const;
};

// `source` stands for the file in messages; `folder` is where its external data lies, empty if there is none.
// Other errors: a name that is not UTF-8 or that names two tensors or functions, a graph with a cycle or a missing
// tensor, a function that calls itself.
Result<OnnxModel> ReadOnnxModel(std::string_view bytes, const std::string& source, const std::string& folder);

// The whole file; refuses what is larger than protobuf's 2 GiB.
Result<std::string> ReadProtoFile(const std::string& path);

}  // namespace autotune::onnx_import
