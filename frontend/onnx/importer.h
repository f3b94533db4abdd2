// ImportContext: what an operator's import function sees. Internal to frontend/onnx; not thread-safe.
#pragma once
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "frontend/onnx/proto_reader.h"
#include "graph/graph.h"

namespace autotune::onnx_import {

using namespace graph;  // the importer speaks the graph language throughout
using graph::Op;        // not the kernel language's

class ImportContext {
 public:
  int64_t opset = 0;
  GraphBuilder builder;

  // --- inputs of the current node
  bool Has(size_t i) const { return i < node().inputs.size() && !node().inputs[i].empty(); }
  // As a float32 value of the graph; a constant becomes one.
  Result<ValueId> Tensor(size_t i);
  // Null if it is not known at import.
  const TensorValue* Constant(size_t i) const;
  Result<Shape> ShapeOf(size_t i) const;
  // An integer constant (shape, axes) as numbers; `what` names it in the error.
  Result<std::vector<int64_t>> Ints(size_t i, const char* what) const;
  // A float constant of one element (clip bounds, ratios).
  Result<float> ConstantFloat(size_t i, const char* what) const;

  // --- attributes of the current node
  bool HasAttr(const char* name) const { return node().attrs.count(name) > 0; }
  Result<int64_t> Int(const char* name, int64_t fallback) const;
  Result<float> Float(const char* name, float fallback) const;
  Result<std::string> String(const char* name, const char* fallback) const;
  Result<std::vector<int64_t>> IntList(const char* name, std::vector<int64_t> fallback) const;

  // --- results
  Result<ValueId> Emit(Op op, std::vector<ValueId> inputs, Attrs attrs = {});
  ValueId ScalarConstant(float value) { return builder.AddConstant("", TensorValue::Scalar(value)); }
  Status Bind(ValueId v, size_t output = 0);
  Status BindConstant(TensorValue value, size_t output = 0);
  // The second and later outputs that import ignores must have no reader.
  Status RefuseExtraOutputs(const char* why) const;

  const OnnxNode& node() const { return *node_; }

 private:
  friend class Importer;
  using Entry = std::variant<TensorValue, ValueId>;
  Result<const Entry*> Find(size_t i) const;

  const OnnxNode* node_ = nullptr;
  std::map<std::string, Entry> env_;
  std::map<std::string, ValueId> materialized_;  // constants that became graph constants
  std::set<std::string> used_;                   // names read by a node or an output
};

// Axis in [0, rank) from ONNX's [-rank, rank).
Result<int64_t> NormalizeAxis(int64_t axis, int rank);

// One row per operator.
struct OperatorRow {
  const char* name;
  int min_opset, max_opset;  // those whose meaning the function implements
  Status (*import)(ImportContext&);
};
// The lists of the families; an operator stands in exactly one.
const std::vector<OperatorRow>& ConvOperators();      // conv.cc: Conv, Gemm, MatMul
const std::vector<OperatorRow>& MathOperators();      // math.cc: element-wise
const std::vector<OperatorRow>& NormPoolOperators();  // norm_pool.cc
const std::vector<OperatorRow>& ShapeOperators();     // shape.cc: data movement, constants

// Arithmetic of integer constants, as shape computations of exported models need it. Null if the current node's
// inputs are not all integer constants.
std::optional<Result<TensorValue>> FoldIntegers(const ImportContext& context);

// Pads and output-independent geometry of a sliding window, from ONNX's attributes; 1-D windows get a unit height.
struct Window {
  bool one_dimensional = false;
  std::vector<int64_t> kernel, strides, pads, dilations;  // 2, 2, 4, 2 numbers
};
// `spatial`: extents of the input; `kernel`: from the weight, or empty to read kernel_shape.
Result<Window> ReadWindow(const ImportContext& context, const Shape& spatial, std::vector<int64_t> kernel);

}  // namespace autotune::onnx_import
