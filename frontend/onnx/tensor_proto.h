// Converts between TensorProto and TensorValue, and maps ONNX's element types. Needs no protobuf headers. Internal to
// frontend/onnx.
#pragma once
#include <optional>

#include "frontend/onnx/external_data.h"
#include "graph/tensor_value.h"
#include "support/result.h"

namespace onnx {
class TensorProto;
}

namespace autotune::onnx_import {

// Returns the name of an element type for messages: "float32", "int64", ...; "type 23" for an unknown type.
std::string OnnxTypeName(int data_type);
std::optional<DType> OnnxDType(int data_type);
std::string OnnxTypeName(DType dtype);
// Converts a tensor. `folder` is for data in other files; without a folder, such tensors are refused.
Result<graph::TensorValue> ToTensorValue(const onnx::TensorProto& proto, const ModelFolder& folder = {});
Status ToTensorProto(const graph::TensorValue& value, const std::string& name, onnx::TensorProto* proto);

}  // namespace autotune::onnx_import
