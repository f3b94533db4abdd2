// Reads tensors that an ONNX model stores in other files of its folder. Models above protobuf's limit of 2 GiB must do
// so. Internal to frontend/onnx; stateless, thread-safe.
#pragma once
#include <map>
#include <string>

#include "graph/tensor_value.h"
#include "support/result.h"

namespace autotune::onnx_import {

// Reads a tensor's bytes. `entries` is the model's description of their place: location, and perhaps offset and length.
// The location must be a regular file below `folder`, the model's folder: absolute paths, ".." and links out of the
// folder are refused. An empty `folder` (a model that comes without one) is an error.
Result<graph::SharedBytes> ReadExternalData(const std::string& folder,
                                            const std::map<std::string, std::string>& entries,
                                            const graph::TensorSpec& spec);

}  // namespace autotune::onnx_import
