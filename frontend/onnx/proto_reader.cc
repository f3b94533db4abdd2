#include "frontend/onnx/proto_reader.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "frontend/onnx/tensor_proto.h"
#include "frontend/onnx/validate.h"
#include "support/utf8.h"

#define ONNX_ML 1
#define ONNX_NAMESPACE onnx
#include <google/protobuf/io/coded_stream.h>
#include <onnx/onnx_pb.h>

namespace autotune::onnx_import {
namespace {

Result<OnnxAttr> ConvertAttr(const onnx::AttributeProto& proto, const std::string& folder) {
  OnnxAttr attr;
  switch (proto.type()) {
    case onnx::AttributeProto::INT:
      attr.i = proto.i();
      break;
    case onnx::AttributeProto::FLOAT:
      attr.f = proto.f();
      break;
    case onnx::AttributeProto::STRING:
      attr.s = proto.s();
      break;
    case onnx::AttributeProto::INTS:
      attr.ints.emplace(proto.ints().begin(), proto.ints().end());
      break;
    case onnx::AttributeProto::FLOATS:
      attr.floats.emplace(proto.floats().begin(), proto.floats().end());
      break;
    case onnx::AttributeProto::STRINGS:
      attr.strings.emplace(proto.strings().begin(), proto.strings().end());
      break;
    case onnx::AttributeProto::TENSOR:
      attr.tensor = TRY(ToTensorValue(proto.t(), folder));
      break;
    default:
      break;  // graphs, sparse tensors, ...: of operators that are not supported; their presence is kept
  }
  return attr;
}

OnnxNode ConvertNode(const onnx::NodeProto& proto, int index, const std::string& folder) {
  OnnxNode node{index, proto.op_type(), proto.domain(), proto.name(), {}, {}, {}, {}};
  node.inputs.assign(proto.input().begin(), proto.input().end());
  node.outputs.assign(proto.output().begin(), proto.output().end());
  for (const onnx::AttributeProto& a : proto.attribute()) {
    Result<OnnxAttr> attr = ConvertAttr(a, folder);
    if (attr.ok()) {
      node.attrs[a.name()] = std::move(*attr);
    } else if (!node.error) {
      node.error = std::move(attr).error();
    }
  }
  return node;
}

OnnxValueInfo ConvertValueInfo(const onnx::ValueInfoProto& proto) {
  OnnxValueInfo info{proto.name(), "no type", {}, {}};
  if (!proto.type().has_tensor_type()) {
    if (proto.has_type()) info.type = "no tensor";
    return info;
  }
  const auto& tensor = proto.type().tensor_type();
  info.type = OnnxTypeName(tensor.elem_type());
  info.dtype = OnnxDType(tensor.elem_type());
  if (tensor.has_shape()) {
    info.dims.emplace();
    for (const auto& d : tensor.shape().dim()) {
      info.dims->push_back(d.has_dim_value() && d.dim_value() >= 0 ? OnnxDim{d.dim_value(), ""}
                                                                   : OnnxDim{-1, d.dim_param()});
    }
  }
  return info;
}

// Names go into packages and messages: all are text. Every tensor has one origin: an input, an initializer or a node.
// (An initializer may also be listed as an input: then it is that input's default.)
Status CheckNames(const onnx::GraphProto& graph) {
  auto check = [](const std::string& name, const char* what) -> Status {
    if (IsUtf8(name)) return {};
    return Err("the name of ", what, " '", OneLine(name), "' is not UTF-8 text");
  };
  std::set<std::string_view> inputs, initializers, outputs;
  std::map<std::string_view, std::string> computed;  // tensor -> the node that computes it
  for (const auto& info : graph.input()) {
    TRY(check(info.name(), "input"));
    if (!inputs.insert(info.name()).second) return Err("there are two inputs '", info.name(), "'");
  }
  for (const auto& tensor : graph.initializer()) {
    TRY(check(tensor.name(), "initializer"));
    if (!initializers.insert(tensor.name()).second) return Err("there are two initializers '", tensor.name(), "'");
  }
  for (const auto& info : graph.output()) {
    TRY(check(info.name(), "output"));
    if (!outputs.insert(info.name()).second) return Err("there are two outputs '", info.name(), "'");
  }
  TRY(check(graph.name(), "graph"));
  for (int i = 0; i < graph.node_size(); ++i) {
    const onnx::NodeProto& node = graph.node(i);
    TRY(check(node.name(), "node"));
    TRY(check(node.op_type(), "operator"));
    TRY(check(node.domain(), "domain"));
    std::string what = node.op_type() + " (" + NodeLabel(node.name(), i) + ")";
    for (const std::string& name : node.input()) TRY(check(name, "tensor"));
    for (const std::string& name : node.output()) {
      TRY(check(name, "tensor"));
      if (name.empty()) continue;  // an optional output that is left out
      auto [other, is_new] = computed.try_emplace(name, what);
      const char* origin = inputs.count(name) ? "an input" : initializers.count(name) ? "an initializer" : nullptr;
      if (origin || !is_new)
        return Err("tensor '", name, "' has two origins: ", origin ? origin : other->second, " and ", what);
    }
  }
  return {};
}

// The error for a model that violates the ONNX specification itself.
Error InvalidModel(const std::string& source, Error why) {
  return WithCause(source + " is not a valid ONNX model: " + why.Text(), "not a valid ONNX model: " + why.Cause());
}

}  // namespace

std::string NodeLabel(const std::string& name, int index) {
  return name.empty() ? "node #" + std::to_string(index) : "node '" + name + "'";
}

Result<std::string> ReadProtoFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return Err(path, " is a directory, not a file");
  std::ifstream in(path, std::ios::binary);
  if (!in) return Err("cannot open ", path, ": ", std::strerror(errno));
  uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return Err("cannot read ", path, ": ", error.message());
  if (size > std::numeric_limits<int32_t>::max())
    return Err(path,
               " is larger than 2 GiB, which a file of this format cannot be; save large tensors as external data");
  std::string bytes(size, '\0');
  if (!in.read(bytes.data(), static_cast<std::streamsize>(size))) return Err("cannot read ", path, " to its end");
  return bytes;
}

Result<OnnxModel> ReadOnnxModel(std::string_view bytes, const std::string& source, const std::string& folder) {
  auto refuse = [&](const std::string& why) { return WithCause(source + " " + why, why); };
  if (bytes.empty()) return refuse("is empty");
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    return refuse("is larger than 2 GiB, which a file of this format cannot be; save large tensors as external data");
  onnx::ModelProto proto;
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetTotalBytesLimit(std::numeric_limits<int32_t>::max());
  if (!proto.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage() || !proto.has_graph()) {
    return refuse("is not an ONNX model (damaged or cut short?)");
  }
  OnnxModel model;
  model.ir_version = proto.ir_version();
  for (const auto& opset : proto.opset_import()) {
    if (opset.domain().empty() || opset.domain() == "ai.onnx") model.opset = opset.version();
  }
  if (model.opset == 0) return refuse("does not say which ONNX operator set it uses (damaged or cut short?)");
  const onnx::GraphProto& graph = proto.graph();
  if (Status names = CheckNames(graph); !names.ok()) return InvalidModel(source, std::move(names).error());
  model.graph_name = graph.name();
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    model.initializers[tensor.name()] = TRY_NOTE(ToTensorValue(tensor, folder), "in " + source);
  }
  if (graph.sparse_initializer_size() > 0) return refuse("has sparse initializers, which are not supported");
  for (const auto& info : graph.input()) {
    if (!model.initializers.count(info.name())) model.inputs.push_back(ConvertValueInfo(info));
  }
  for (const auto& info : graph.output()) model.outputs.push_back(ConvertValueInfo(info));
  for (int i = 0; i < graph.node_size(); ++i) model.nodes.push_back(ConvertNode(graph.node(i), i, folder));
  if (Status structure = CheckStructure(model); !structure.ok())
    return InvalidModel(source, std::move(structure).error());
  return model;
}

}  // namespace autotune::onnx_import
