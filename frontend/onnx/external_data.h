// Tensors that an ONNX model keeps in other files of its folder, as models above protobuf's 2 GiB must. Internal to
// frontend/onnx; stateless, thread-safe.
#pragma once
#include <map>
#include <string>

#include "graph/tensor_value.h"
#include "support/result.h"

namespace autotune::onnx_import {

// Reads the tensor's bytes where the model's entries say (location, and perhaps offset and length), in files below
// `folder`, the model's own: no absolute paths, no "..", no links that lead out of it, regular files only. `folder`
// empty: the model came without one, which is an error.
Result<graph::SharedBytes> ReadExternalData(const std::string& folder,
                                            const std::map<std::string, std::string>& entries,
                                            const graph::TensorSpec& spec);

}  // namespace autotune::onnx_import
