// ModelEditor looks up and changes parts of an ONNX model: constants, the readers of tensors, new names. Internal to
// the quantizer, since it needs protobuf's headers. Not thread-safe.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frontend/onnx/external_data.h"
#include "graph/tensor_value.h"
#include "support/result.h"

#define ONNX_ML 1
#define ONNX_NAMESPACE onnx
#include <onnx/onnx_pb.h>

namespace autotune::onnx_import {

class ModelEditor {
 public:
  // Looks at the main graph of the model, which must outlive the editor.
  explicit ModelEditor(onnx::ModelProto* model);

  onnx::GraphProto& graph() { return *model_->mutable_graph(); }
  const onnx::GraphProto& graph() const { return model_->graph(); }
  int64_t opset() const;  // of ONNX's own domain; 0: the model does not use it

  // Returns the constant of this name: an initializer or the result of a Constant node. Returns nothing if it is
  // computed, or if its type is not f32.
  std::optional<graph::TensorValue> Floats(const std::string& name) const;
  bool IsConstant(const std::string& name) const { return constants_.count(name) > 0; }
  // Returns the elements of the constant if there are `count` of them, or one that holds for all.
  std::optional<std::vector<float>> FloatsFor(const std::string& name, int64_t count) const;
  // Returns the indices of the nodes that read a tensor.
  const std::vector<int>& Readers(const std::string& name) const;
  // Returns whether something else than a node of the main graph reads the tensor: an output or a subgraph.
  bool IsPinned(const std::string& name) const { return pinned_.count(name) > 0; }
  // Returns whether the node `reader` alone reads the tensor.
  bool OnlyReaderIs(const std::string& name, int reader) const;
  int Producer(const std::string& name) const;  // index of the node; -1: none
  // Returns whether the values of the tensor depend on those of an input of the model, not only on shapes.
  bool Varies(const std::string& name) const { return varying_.count(name) > 0; }

  // Returns a name that no tensor has yet: `base`, or with a number behind it.
  std::string Fresh(const std::string& base);
  // Adds an initializer and returns its name, which begins with `base`.
  std::string AddConstant(const std::string& base, const graph::TensorValue& value);
  std::string AddInt4(const std::string& base, const graph::Shape& shape, const std::vector<uint8_t>& packed);

  // Multiplies each BatchNormalization behind a convolution into the convolution's weights. Changes the indices of
  // nodes, so it makes the editor look at the model again.
  void FoldBatchNorms();
  // Removes the initializers, inputs with defaults and stated types of tensors that nothing makes or reads any more.
  void Prune();

 private:
  void Look();
  bool FoldBatchNorm(int index);

  onnx::ModelProto* model_;
  std::map<std::string, const onnx::TensorProto*> constants_;
  std::map<std::string, std::vector<int>> readers_;
  std::map<std::string, int> producers_;
  std::set<std::string> pinned_, varying_, names_;
};

// Returns an integer attribute of a node, or a float one.
int64_t IntOf(const onnx::NodeProto& node, const char* name, int64_t fallback);
float FloatOf(const onnx::NodeProto& node, const char* name, float fallback);
void SetInt(onnx::NodeProto* node, const char* name, int64_t value);
void SetInts(onnx::NodeProto* node, const char* name, const std::vector<int64_t>& values);
void RemoveAttribute(onnx::NodeProto* node, const char* name);
inline bool IsOnnx(const onnx::NodeProto& node) { return node.domain().empty() || node.domain() == "ai.onnx"; }

// Brings the tensors that lie in other files into the model.
Status TakeExternalData(onnx::GraphProto* graph, const ModelFolder& folder);

// Raises the operator set of a model of 13 or more, and rewrites the nodes whose form has changed until then. The
// importer checks the result.
void RaiseOpset(onnx::ModelProto* model, int64_t opset);

}  // namespace autotune::onnx_import
