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

 private:
  onnx::NodeProto* node_;
};

class ModelMaker {
 public:
  explicit ModelMaker(int opset = 13);
  // Extents below zero become symbolic ("d<i>").
  ModelMaker& Input(const std::string& name, const std::vector<int64_t>& shape, int onnx_type = 1);
  ModelMaker& Output(const std::string& name);
  ModelMaker& Floats(const std::string& name, const std::vector<int64_t>& shape, const std::vector<float>& data);
  ModelMaker& Ints(const std::string& name, const std::vector<int64_t>& data);
  // An initializer's data lies elsewhere: at `entries` (location, offset, length).
  ModelMaker& MarkExternal(const std::string& name, const std::map<std::string, std::string>& entries = {});
  NodeMaker Node(const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                 const std::string& name = "");
  ModelMaker& FileFormat(int64_t ir_version);
  std::string Bytes() const;

 private:
  std::shared_ptr<onnx::ModelProto> proto_;
};

// The model as m.onnx.
Result<ImportedModel> Import(const ModelMaker& model, const ImportOptions& options = {});
// Why it is refused; "no error" if it is not.
std::string ErrorOf(const Result<ImportedModel>& imported);
std::string ImportError(const ModelMaker& model, const ImportOptions& options = {});

}  // namespace autotune
