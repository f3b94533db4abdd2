// Small ONNX models through the protobuf API, for tests of the importer.
#pragma once
#define ONNX_ML 1
#define ONNX_NAMESPACE onnx
#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

namespace autotune {

class ModelMaker {
 public:
  explicit ModelMaker(int opset = 13) {
    proto.set_ir_version(8);
    proto.add_opset_import()->set_version(opset);
    proto.mutable_graph()->set_name("test");
  }
  // Extents below zero become symbolic ("d<i>").
  ModelMaker& Input(const std::string& name, const std::vector<int64_t>& shape, int type = onnx::TensorProto::FLOAT) {
    Describe(proto.mutable_graph()->add_input(), name, shape, type);
    return *this;
  }
  ModelMaker& Output(const std::string& name) {
    proto.mutable_graph()->add_output()->set_name(name);
    return *this;
  }
  ModelMaker& Floats(const std::string& name, const std::vector<int64_t>& shape, const std::vector<float>& data) {
    auto* t = Tensor(name, shape, onnx::TensorProto::FLOAT);
    for (float x : data) t->add_float_data(x);
    return *this;
  }
  ModelMaker& Ints(const std::string& name, const std::vector<int64_t>& data) {
    auto* t = Tensor(name, {static_cast<int64_t>(data.size())}, onnx::TensorProto::INT64);
    for (int64_t x : data) t->add_int64_data(x);
    return *this;
  }
  onnx::NodeProto& Node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const std::string& name = "") {
    auto* node = proto.mutable_graph()->add_node();
    node->set_op_type(op);
    node->set_name(name);
    for (const auto& s : inputs) node->add_input(s);
    for (const auto& s : outputs) node->add_output(s);
    return *node;
  }
  std::string Bytes() const { return proto.SerializeAsString(); }

  onnx::ModelProto proto;

 private:
  onnx::TensorProto* Tensor(const std::string& name, const std::vector<int64_t>& shape, int type) {
    auto* t = proto.mutable_graph()->add_initializer();
    t->set_name(name);
    t->set_data_type(type);
    for (int64_t d : shape) t->add_dims(d);
    return t;
  }
  static void Describe(onnx::ValueInfoProto* info, const std::string& name, const std::vector<int64_t>& shape,
                       int type) {
    info->set_name(name);
    auto* tensor = info->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
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
};

inline void SetInt(onnx::NodeProto& node, const std::string& name, int64_t value) {
  auto* a = node.add_attribute();
  a->set_name(name);
  a->set_type(onnx::AttributeProto::INT);
  a->set_i(value);
}
inline void SetInts(onnx::NodeProto& node, const std::string& name, const std::vector<int64_t>& values) {
  auto* a = node.add_attribute();
  a->set_name(name);
  a->set_type(onnx::AttributeProto::INTS);
  for (int64_t v : values) a->add_ints(v);
}

}  // namespace autotune
