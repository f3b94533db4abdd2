// Reads ONNX models from protobuf messages into plain structs. The reader refuses only damaged models; the importer
// decides which operators and types are supported. Thread-safe.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "frontend/onnx/external_data.h"
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
  std::string ref;  // in a function: name of the call's attribute whose value this attribute takes
};

// Returns "node 'conv1'", or "node #7" if the name is empty.
std::string NodeLabel(const std::string& name, int index);

struct OnnxNode {
  int index = 0;
  std::string op_type, domain, overload, name;  // ONNX's own domain is ""
  std::vector<std::string> inputs, outputs;     // names of tensors; "" for an omitted one
  std::map<std::string, OnnxAttr> attrs;
  std::set<std::string> captured;  // tensors from outside that the node's subgraphs read
  std::optional<Error> error;      // set if an attribute cannot be read

  // Returns "Conv (node 'conv1')". A domain other than ONNX's precedes the operator: "com.microsoft.Gelu (node #2)".
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
  std::string type;            // "float32", "string", ...; "no tensor" or, if the file states none, "no type"
  std::optional<DType> dtype;  // set for a tensor of numbers or bools
  std::optional<std::vector<OnnxDim>> dims;
};

// The network, the subgraph of a node, or the body of a function.
struct OnnxGraph {
  std::string name;
  std::vector<OnnxNode> nodes;
  std::map<std::string, Result<graph::TensorValue>> initializers;  // an error for a type that graphs cannot hold
  std::vector<OnnxValueInfo> inputs;                               // for the network, without initializers
  std::vector<OnnxValueInfo> outputs;
  std::vector<OnnxValueInfo> intermediates;  // types that the file states of other tensors
  std::set<std::string> used;                // names that its nodes, their subgraphs and its outputs read
};

// Versions of operator sets by domain.
using OnnxOpsets = std::map<std::string, int64_t>;

struct OnnxFunction {
  std::string domain, name, overload;
  std::map<std::string, OnnxAttr> defaults;  // values of attributes that calls may omit
  std::set<std::string> attributes;          // the other attributes that calls may have
  OnnxOpsets opsets;
  OnnxGraph body;  // its inputs and outputs have no types

  std::string Text() const {
    return (domain.empty() ? "" : domain + ".") + name + (overload.empty() ? "" : ":" + overload);
  }
};

struct OnnxModel {
  OnnxOpsets opsets;
  int64_t ir_version = 0;  // version of the file format
  OnnxGraph graph;
  std::map<std::tuple<std::string, std::string, std::string>, OnnxFunction> functions;  // domain, name, overload

  // Returns the function that a node calls, or null.
  const OnnxFunction* FindFunction(const OnnxNode& node) const;
};

// Reads a model. `source` names it in messages. `folder` holds its external data. Errors: a damaged file; a name that
// is not UTF-8 or that names two tensors or functions; a graph with a cycle or a missing tensor; a function that calls
// itself.
Result<OnnxModel> ReadOnnxModel(std::string_view bytes, const std::string& source, const ModelFolder& folder);

// Returns the bytes of a file. Refuses files above protobuf's limit of 2 GiB.
Result<std::string> ReadProtoFile(const std::string& path);

}  // namespace autotune::onnx_import
