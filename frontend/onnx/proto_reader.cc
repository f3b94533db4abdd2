#include "frontend/onnx/proto_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
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

// Returns the name of a domain. ONNX's own domain has two names, "" and "ai.onnx"; both become "".
std::string DomainOf(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

// Returns the strings or serialized messages of a field that the installed ONNX headers do not have.
std::vector<std::string> NewerField(const google::protobuf::UnknownFieldSet& fields, int number) {
  std::vector<std::string> values;
  for (int i = 0; i < fields.field_count(); ++i) {
    const google::protobuf::UnknownField& field = fields.field(i);
    if (field.number() == number && field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
      values.push_back(field.length_delimited());
  }
  return values;
}

// Field numbers of NodeProto.overload, FunctionProto.attribute_proto and FunctionProto.overload.
constexpr int kNodeOverload = 8, kFunctionDefaults = 11, kFunctionOverload = 13;

std::string OverloadOf(const google::protobuf::UnknownFieldSet& fields, int number) {
  std::vector<std::string> values = NewerField(fields, number);
  return values.empty() ? "" : values.back();
}

OnnxValueInfo ConvertValueInfo(const onnx::ValueInfoProto& proto) {
  OnnxValueInfo info{proto.name(), "no type", {}, {}};
  if (!proto.type().has_tensor_type()) {
    if (proto.has_type()) info.type = "no tensor";
    return info;
  }
  const auto& tensor = proto.type().tensor_type();
  if (tensor.elem_type() == onnx::TensorProto::UNDEFINED) return info;
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

// Checks that all names are UTF-8 text, since packages and messages contain them. Also checks that every tensor has one
// origin: an input, an initializer or a node. An initializer with the name of an input is allowed: it is the input's
// default value.
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
    TRY(check(OverloadOf(node.unknown_fields(), kNodeOverload), "overload"));
    std::string what = node.op_type() + " (" + NodeLabel(node.name(), i) + ")";
    for (const std::string& name : node.input()) TRY(check(name, "tensor"));
    for (const std::string& name : node.output()) {
      TRY(check(name, "tensor"));
      if (name.empty()) continue;  // an omitted optional output
      auto [other, is_new] = computed.try_emplace(name, what);
      const char* origin = inputs.count(name) ? "an input" : initializers.count(name) ? "an initializer" : nullptr;
      if (origin || !is_new)
        return Err("tensor '", name, "' has two origins: ", origin ? origin : other->second, " and ", what);
    }
    for (const onnx::AttributeProto& a : node.attribute()) {
      if (a.has_g()) TRY_NOTE(CheckNames(a.g()), "in " + OneLine(a.name()) + " of " + what);
    }
  }
  return {};
}

Result<OnnxGraph> ConvertGraph(const onnx::GraphProto& proto, const ModelFolder& folder);

Result<OnnxAttr> ConvertAttr(const onnx::AttributeProto& proto, const ModelFolder& folder) {
  OnnxAttr attr;
  attr.ref = proto.ref_attr_name();
  if (!attr.ref.empty()) return attr;
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
    case onnx::AttributeProto::GRAPH:
      attr.graph = std::make_shared<const OnnxGraph>(TRY(ConvertGraph(proto.g(), folder)));
      break;
    default:
      break;  // only unsupported operators have attributes of other kinds; the attribute is kept without a value
  }
  return attr;
}

// Adds the names that the subgraph reads but does not define itself.
void AddCaptured(const OnnxGraph& graph, std::set<std::string>* captured) {
  std::set<std::string> own;
  for (const OnnxValueInfo& info : graph.inputs) own.insert(info.name);
  for (const auto& [name, value] : graph.initializers) own.insert(name);
  for (const OnnxNode& node : graph.nodes) own.insert(node.outputs.begin(), node.outputs.end());
  for (const std::string& name : graph.used) {
    if (!name.empty() && !own.count(name)) captured->insert(name);
  }
}

OnnxNode ConvertNode(const onnx::NodeProto& proto, int index, const ModelFolder& folder) {
  OnnxNode node{.index = index,
                .op_type = proto.op_type(),
                .domain = DomainOf(proto.domain()),
                .overload = OverloadOf(proto.unknown_fields(), kNodeOverload),
                .name = proto.name(),
                .inputs = {proto.input().begin(), proto.input().end()},
                .outputs = {proto.output().begin(), proto.output().end()}};
  for (const onnx::AttributeProto& a : proto.attribute()) {
    Result<OnnxAttr> attr = ConvertAttr(a, folder);
    if (attr.ok() && node.attrs.count(a.name())) attr = Err("has two attributes '", OneLine(a.name()), "'");
    if (attr.ok()) {
      if (attr->graph) AddCaptured(*attr->graph, &node.captured);
      node.attrs[a.name()] = std::move(*attr);
    } else if (!node.error) {
      node.error = std::move(attr).error();
    }
  }
  return node;
}

template <class Nodes>
void ConvertNodes(const Nodes& nodes, const ModelFolder& folder, OnnxGraph* graph) {
  for (const onnx::NodeProto& proto : nodes) {
    const OnnxNode& node = graph->nodes.emplace_back(ConvertNode(proto, static_cast<int>(graph->nodes.size()), folder));
    graph->used.insert(node.inputs.begin(), node.inputs.end());
    graph->used.insert(node.captured.begin(), node.captured.end());
  }
  for (const OnnxValueInfo& info : graph->outputs) graph->used.insert(info.name);
}

Result<OnnxGraph> ConvertGraph(const onnx::GraphProto& proto, const ModelFolder& folder) {
  if (proto.sparse_initializer_size() > 0) return Err("sparse initializers are not supported");
  OnnxGraph graph;
  graph.name = proto.name();
  for (const onnx::TensorProto& tensor : proto.initializer()) {
    Result<graph::TensorValue> value = ToTensorValue(tensor, folder);
    if (!value.ok() && OnnxDType(tensor.data_type())) return std::move(value).error();
    graph.initializers.emplace(tensor.name(), std::move(value));
  }
  for (const auto& info : proto.input()) graph.inputs.push_back(ConvertValueInfo(info));
  for (const auto& info : proto.output()) graph.outputs.push_back(ConvertValueInfo(info));
  for (const auto& info : proto.value_info()) graph.intermediates.push_back(ConvertValueInfo(info));
  ConvertNodes(proto.node(), folder, &graph);
  return graph;
}

// Adds the names of the call's attributes to which the nodes of a function's body refer.
void AddReferences(const OnnxGraph& body, std::set<std::string>* attributes) {
  for (const OnnxNode& node : body.nodes) {
    for (const auto& [name, attr] : node.attrs) {
      if (!attr.ref.empty()) attributes->insert(attr.ref);
      if (attr.graph) AddReferences(*attr.graph, attributes);
    }
  }
}

template <class Imports>
OnnxOpsets ConvertOpsets(const Imports& imports) {
  OnnxOpsets opsets;
  for (const auto& opset : imports) opsets[DomainOf(opset.domain())] = opset.version();
  return opsets;
}

Result<OnnxFunction> ConvertFunction(const onnx::FunctionProto& proto, const ModelFolder& folder) {
  OnnxFunction function{.domain = DomainOf(proto.domain()),
                        .name = proto.name(),
                        .overload = OverloadOf(proto.unknown_fields(), kFunctionOverload),
                        .opsets = ConvertOpsets(proto.opset_import())};
  if (!IsUtf8(function.Text())) return Err("its name is not UTF-8 text");
  // Convert the function's body as a graph, so that the same rules hold for its names.
  onnx::GraphProto graph;
  graph.set_name(proto.name());
  for (const std::string& name : proto.input()) graph.add_input()->set_name(name);
  for (const std::string& name : proto.output()) graph.add_output()->set_name(name);
  *graph.mutable_node() = proto.node();
  TRY(CheckNames(graph));
  function.body = TRY(ConvertGraph(graph, folder));
  function.attributes.insert(proto.attribute().begin(), proto.attribute().end());
  AddReferences(function.body, &function.attributes);
  for (const std::string& bytes : NewerField(proto.unknown_fields(), kFunctionDefaults)) {
    onnx::AttributeProto attribute;
    if (!attribute.ParseFromString(bytes)) return Err("has a default attribute that cannot be read");
    OnnxAttr attr =
        TRY_NOTE(ConvertAttr(attribute, folder), "in the default of attribute '" + OneLine(attribute.name()) + "'");
    function.defaults[attribute.name()] = std::move(attr);
  }
  return function;
}

// The error for a model that violates the ONNX specification itself.
Error InvalidModel(const std::string& source, Error why) {
  return WithCause(source + " is not a valid ONNX model: " + why.Text(), "not a valid ONNX model: " + why.Cause());
}

}  // namespace

const OnnxFunction* OnnxModel::FindFunction(const OnnxNode& node) const {
  auto it = functions.find({node.domain, node.op_type, node.overload});
  return it == functions.end() ? nullptr : &it->second;
}

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

Result<OnnxModel> ReadOnnxModel(std::string_view bytes, const std::string& source, const ModelFolder& folder) {
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
  model.opsets = ConvertOpsets(proto.opset_import());
  if (model.opsets.empty()) return refuse("does not say which ONNX operator set it uses (damaged or cut short?)");
  auto invalid = [&](Error why) { return InvalidModel(source, std::move(why)); };
  if (Status names = CheckNames(proto.graph()); !names.ok()) return invalid(std::move(names).error());
  if (proto.graph().sparse_initializer_size() > 0) return refuse("has sparse initializers, which are not supported");
  model.graph = TRY_NOTE(ConvertGraph(proto.graph(), folder), "in " + source);
  OnnxGraph& graph = model.graph;
  auto has_default = [&](const OnnxValueInfo& info) { return graph.initializers.count(info.name) > 0; };
  std::copy_if(graph.inputs.begin(), graph.inputs.end(), std::back_inserter(graph.intermediates), has_default);
  std::erase_if(graph.inputs, has_default);
  for (const onnx::FunctionProto& function : proto.functions()) {
    Result<OnnxFunction> converted = ConvertFunction(function, folder);
    if (!converted.ok())
      return invalid(std::move(converted).error().Note("in function '" + OneLine(function.name()) + "'"));
    std::tuple key(converted->domain, converted->name, converted->overload);
    if (model.functions.count(key)) return invalid(Err("there are two functions '", converted->Text(), "'"));
    model.functions.emplace(std::move(key), std::move(*converted));
  }
  if (Status structure = CheckStructure(model); !structure.ok()) return invalid(std::move(structure).error());
  return model;
}

}  // namespace autotune::onnx_import
