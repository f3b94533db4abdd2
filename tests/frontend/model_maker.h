// Small ONNX models for tests of the importer, built through the protobuf API.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "frontend/onnx/import.h"

namespace onnx {
class ModelProto;
class NodeProto;
}  // namespace onnx

namespace autotune {

class ModelMaker;

class NodeMaker {
 public:
  explicit NodeMaker(onnx::NodeProto* node) : node_(node) {}
  NodeMaker& Int(const std::string& name, int64_t value);
  NodeMaker& Ints(const std::string& name, const std::vector<int64_t>& values);
  NodeMaker& Float(const std::string& name, float value);
  NodeMaker& Floats(const std::string& name, const std::vector<float>& values);
  NodeMaker& String(const std::string& name, const std::string& value);
  NodeMaker& Strings(const std::string& name, const std::vector<std::string>& values);
  NodeMaker& Domain(const std::string& domain);
  NodeMaker& Overload(const std::string& overload);
  // Adds an attribute that is a subgraph: the network of another model.
  NodeMaker& Graph(const std::string& name, const ModelMaker& body);
  // Adds an attribute whose value is that of the call's integer attribute `attribute`. For nodes of functions.
  NodeMaker& Reference(const std::string& name, const std::string& attribute);

 private:
  onnx::NodeProto* node_;
};

class ModelMaker {
 public:
  explicit ModelMaker(int opset = 13);
  // Adds an input. An extent below zero at dimension i becomes the symbolic extent "d<i>".
  ModelMaker& Input(const std::string& name, const std::vector<int64_t>& shape, int onnx_type = 1);
  // Adds an f32 input whose extents are numbers or names.
  ModelMaker& NamedInput(const std::string& name, const std::vector<std::string>& extents);
  ModelMaker& Output(const std::string& name);
  // Add an output, or state the type of another tensor. Extents are as for inputs.
  ModelMaker& TypedOutput(const std::string& name, const std::vector<int64_t>& shape, int onnx_type);
  ModelMaker& Declared(const std::string& name, const std::vector<int64_t>& shape, int onnx_type);
  ModelMaker& Floats(const std::string& name, const std::vector<int64_t>& shape, const std::vector<float>& data);
  ModelMaker& Ints(const std::string& name, const std::vector<int64_t>& data);
  // Adds an initializer whose elements have one byte.
  ModelMaker& Bytes8(const std::string& name, const std::vector<int64_t>& shape, const std::vector<uint8_t>& data,
                     int onnx_type);
  // Marks an initializer's data as external. `entries` says where the data lies: location, offset and length.
  ModelMaker& MarkExternal(const std::string& name, const std::map<std::string, std::string>& entries = {});
  NodeMaker Node(const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                 const std::string& name = "");
  ModelMaker& FileFormat(int64_t ir_version);
  // States that the model uses version 1 of a domain's operators.
  ModelMaker& ImportDomain(const std::string& domain);
  // States that the model uses version 1 of the domain's operators and no others, not even ONNX's own.
  ModelMaker& OnlyDomain(const std::string& domain);
  // Adds a function whose body and operator set are those of another model. The function's attributes are those that
  // its nodes refer to; `defaults` gives their integer defaults.
  ModelMaker& Function(const std::string& domain, const std::string& name, const ModelMaker& body,
                       const std::map<std::string, int64_t>& defaults = {}, const std::string& overload = "");
  std::string Bytes() const;

 private:
  friend class NodeMaker;
  std::shared_ptr<onnx::ModelProto> proto_;
};

// Imports the model under the file name m.onnx.
Result<ImportedModel> Import(const ModelMaker& model, const ImportOptions& options = {});
// Returns the message of a failed import; "no error" if it succeeded.
std::string ErrorOf(const Result<ImportedModel>& imported);
std::string ImportError(const ModelMaker& model, const ImportOptions& options = {});

}  // namespace autotune
