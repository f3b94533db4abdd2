// Conversion between TensorProto and TensorValue, for the two files that touch protobuf. Internal to frontend/onnx.
#pragma once
#include <optional>

#include "graph/tensor_value.h"
#include "support/result.h"

namespace onnx {
class TensorProto;
}

namespace autotune::onnx_import {

// "float32", "int64", ... for messages; "type 23" for what this version does not know.
std::string OnnxTypeName(int data_type);
std::optional<DType> OnnxDType(int data_type);
// `folder`: the model's, for tensors whose data lies in another file; empty: refused.
Result<graph::TensorValue> ToTensorValue(const onnx::TensorProto& proto, const std::string& folder = "");
Status ToTensorProto(const graph::TensorValue& value, const std::string& name, onnx::TensorProto* proto);

}  // namespace autotune::onnx_import
