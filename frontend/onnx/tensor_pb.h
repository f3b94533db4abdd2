// Reads and writes ONNX TensorProto files (`input_0.pb`), each with one tensor. Not for tensors inside a model.
// Thread-safe.
#pragma once
#include <string>
#include <string_view>

#include "graph/tensor_value.h"
#include "support/result.h"

namespace autotune {

struct NamedTensor {
  std::string name;  // may be empty
  graph::TensorValue value;
};

// Read a tensor of numbers or bools of a type that graphs can hold. Errors name the file.
Result<NamedTensor> ReadTensorPb(const std::string& path);
Result<NamedTensor> ParseTensorPb(std::string_view bytes, const std::string& source);
Status WriteTensorPb(const std::string& path, const NamedTensor& tensor);

}  // namespace autotune
