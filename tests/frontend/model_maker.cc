#include "tests/frontend/model_maker.h"

#include <cctype>

#define ONNX_ML 1
#define ONNX_NAMESPACE onnx
#include <google/protobuf/unknown_field_set.h>
#include <onnx/onnx_pb.h>

namespace autotune {
namespace {

onnx::AttributeProto* AddAttr(onnx::NodeProto* node, const std::string& name,
                              onnx::AttributeProto::AttributeType type) {
  auto* a = node->add_attribute();
  a->set_name(name);
  a->set_type(type);
  return a;
}

onnx::TensorProto* AddTensor(onnx::ModelProto& model, const std::string& name, const std::vector<int64_t>& shape,
                             int type) {
  auto* t = model.mutable_graph()->add_initializer();
  t->set_name(name);
  t->set_data_type(type);
  for (int64_t d : shape) t->add_dims(d);
  return t;
}

}  // namespace

NodeMaker& NodeMaker::Int(const std::string& name, int64_t value) {
  AddAttr(node_, name, onnx::AttributeProto::INT)->set_i(value);
  return *this;
}
NodeMaker& NodeMaker::Ints(const std::string& name, const std::vector<int64_t>& values) {
  auto* a = AddAttr(node_, name, onnx::AttributeProto::INTS);
  for (int64_t v : values) a->add_ints(v);
  return *this;
}
NodeMaker& NodeMaker::Float(const std::string& name, float value) {
  AddAttr(node_, name, onnx::AttributeProto::FLOAT)->set_f(value);
  return *this;
}
NodeMaker& NodeMaker::Floats(const std::string& name, const std::vector<float>& values) {
  auto* a = AddAttr(node_, name, onnx::AttributeProto::FLOATS);
  for (float v : values) a->add_floats(v);
  return *this;
}
NodeMaker& NodeMaker::String(const std::string& name, const std::string& value) {
  AddAttr(node_, name, onnx::AttributeProto::STRING)->set_s(value);
  return *this;
}
NodeMaker& NodeMaker::Strings(const std::string& name, const std::vector<std::string>& values) {
  auto* a = AddAttr(node_, name, onnx::AttributeProto::STRINGS);
  for (const std::string& v : values) a->add_strings(v);
  return *this;
}
NodeMaker& NodeMaker::Domain(const std::string& domain) {
  node_->set_domain(domain);
  return *this;
}

NodeMaker& NodeMaker::Overload(const std::string& overload) {
  constexpr int kField = 8;  // number of the field overload, which Debian's headers lack
  node_->mutable_unknown_fields()->AddLengthDelimited(kField, overload);
  return *this;
}

NodeMaker& NodeMaker::Graph(const std::string& name, const ModelMaker& body) {
  *AddAttr(node_, name, onnx::AttributeProto::GRAPH)->mutable_g() = body.proto_->graph();
  return *this;
}

NodeMaker& NodeMaker::Reference(const std::string& name, const std::string& attribute) {
  AddAttr(node_, name, onnx::AttributeProto::INT)->set_ref_attr_name(attribute);
  return *this;
}

ModelMaker::ModelMaker(int opset) : proto_(std::make_shared<onnx::ModelProto>()) {
  proto_->set_ir_version(8);
  proto_->add_opset_import()->set_version(opset);
  proto_->mutable_graph()->set_name("test");
}

namespace {
// States a tensor's type. An extent below zero at dimension i becomes the symbolic extent "d<i>".
void Declare(onnx::ValueInfoProto* info, const std::string& name, const std::vector<int64_t>& shape, int onnx_type) {
  info->set_name(name);
  auto* tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(onnx_type);
  tensor->mutable_shape();
  for (size_t i = 0; i < shape.size(); ++i) {
    auto* dim = tensor->mutable_shape()->add_dim();
    if (shape[i] < 0) {
      dim->set_dim_param("d" + std::to_string(i));
    } else {
      dim->set_dim_value(shape[i]);
    }
  }
}
}  // namespace

ModelMaker& ModelMaker::Input(const std::string& name, const std::vector<int64_t>& shape, int onnx_type) {
  Declare(proto_->mutable_graph()->add_input(), name, shape, onnx_type);
  return *this;
}

ModelMaker& ModelMaker::TypedOutput(const std::string& name, const std::vector<int64_t>& shape, int onnx_type) {
  Declare(proto_->mutable_graph()->add_output(), name, shape, onnx_type);
  return *this;
}

ModelMaker& ModelMaker::Declared(const std::string& name, const std::vector<int64_t>& shape, int onnx_type) {
  Declare(proto_->mutable_graph()->add_value_info(), name, shape, onnx_type);
  return *this;
}

ModelMaker& ModelMaker::NamedInput(const std::string& name, const std::vector<std::string>& extents) {
  Input(name, std::vector<int64_t>(extents.size(), -1));
  auto* shape = proto_->mutable_graph()
                    ->mutable_input(proto_->graph().input_size() - 1)
                    ->mutable_type()
                    ->mutable_tensor_type()
                    ->mutable_shape();
  for (size_t i = 0; i < extents.size(); ++i) {
    auto* dim = shape->mutable_dim(static_cast<int>(i));
    if (std::isdigit(extents[i][0])) {
      dim->set_dim_value(std::stoll(extents[i]));
    } else {
      dim->set_dim_param(extents[i]);
    }
  }
  return *this;
}

ModelMaker& ModelMaker::Output(const std::string& name) {
  proto_->mutable_graph()->add_output()->set_name(name);
  return *this;
}

ModelMaker& ModelMaker::Floats(const std::string& name, const std::vector<int64_t>& shape,
                               const std::vector<float>& data) {
  auto* t = AddTensor(*proto_, name, shape, onnx::TensorProto::FLOAT);
  for (float x : data) t->add_float_data(x);
  return *this;
}

ModelMaker& ModelMaker::Ints(const std::string& name, const std::vector<int64_t>& data) {
  auto* t = AddTensor(*proto_, name, {static_cast<int64_t>(data.size())}, onnx::TensorProto::INT64);
  for (int64_t x : data) t->add_int64_data(x);
  return *this;
}

ModelMaker& ModelMaker::Bytes8(const std::string& name, const std::vector<int64_t>& shape,
                               const std::vector<uint8_t>& data, int onnx_type) {
  AddTensor(*proto_, name, shape, onnx_type)->set_raw_data(data.data(), data.size());
  return *this;
}

ModelMaker& ModelMaker::MarkExternal(const std::string& name, const std::map<std::string, std::string>& entries) {
  for (auto& t : *proto_->mutable_graph()->mutable_initializer()) {
    if (t.name() != name) continue;
    t.set_data_location(onnx::TensorProto::EXTERNAL);
    t.clear_float_data();
    for (const auto& [key, value] : entries) {
      auto* entry = t.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
  }
  return *this;
}

NodeMaker ModelMaker::Node(const std::string& op, const std::vector<std::string>& inputs,
                           const std::vector<std::string>& outputs, const std::string& name) {
  auto* node = proto_->mutable_graph()->add_node();
  node->set_op_type(op);
  node->set_name(name);
  for (const auto& s : inputs) node->add_input(s);
  for (const auto& s : outputs) node->add_output(s);
  return NodeMaker(node);
}

ModelMaker& ModelMaker::FileFormat(int64_t ir_version) {
  proto_->set_ir_version(ir_version);
  return *this;
}

ModelMaker& ModelMaker::ImportDomain(const std::string& domain) {
  auto* opset = proto_->add_opset_import();
  opset->set_domain(domain);
  opset->set_version(1);
  return *this;
}

ModelMaker& ModelMaker::OnlyDomain(const std::string& domain) {
  proto_->clear_opset_import();
  return ImportDomain(domain);
}

ModelMaker& ModelMaker::Function(const std::string& domain, const std::string& name, const ModelMaker& body,
                                 const std::map<std::string, int64_t>& defaults, const std::string& overload) {
  constexpr int kDefaults = 11, kOverload = 13;  // numbers of fields that Debian's headers lack
  const onnx::GraphProto& graph = body.proto_->graph();
  auto* function = proto_->add_functions();
  function->set_domain(domain);
  function->set_name(name);
  *function->mutable_opset_import() = body.proto_->opset_import();
  for (const auto& info : graph.input()) function->add_input(info.name());
  for (const auto& info : graph.output()) function->add_output(info.name());
  *function->mutable_node() = graph.node();
  for (const auto& [attribute, value] : defaults) {
    onnx::AttributeProto proto;
    proto.set_name(attribute);
    proto.set_type(onnx::AttributeProto::INT);
    proto.set_i(value);
    function->mutable_unknown_fields()->AddLengthDelimited(kDefaults, proto.SerializeAsString());
  }
  if (!overload.empty()) function->mutable_unknown_fields()->AddLengthDelimited(kOverload, overload);
  return *this;
}

std::string ModelMaker::Bytes() const { return proto_->SerializeAsString(); }

Result<ImportedModel> Import(const ModelMaker& model, const ImportOptions& options) {
  return ImportOnnxBytes(model.Bytes(), "m.onnx", options);
}

std::string ErrorOf(const Result<ImportedModel>& imported) {
  return imported.ok() ? "no error" : imported.error().Text();
}

std::string ImportError(const ModelMaker& model, const ImportOptions& options) {
  return ErrorOf(Import(model, options));
}

}  // namespace autotune
