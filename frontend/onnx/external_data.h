// Reads tensors that an ONNX model stores in other files of its folder. Models above protobuf's limit of 2 GiB must do
// so. Internal to frontend/onnx; stateless, thread-safe.
#pragma once
#include <map>
#include <string>

#include "graph/tensor_value.h"
#include "support/result.h"

namespace autotune::onnx_import {

// Where a model's external data lie.
struct ModelFolder {
  std::string path;      // the folder of the model's path, in which locations are looked up; empty if there is none
  std::string resolved;  // the folder of the model file that the path links to; empty if there is none
};
// Returns the folders of the model file `path`.
ModelFolder DataFolderOf(const std::string& path);

// Reads a tensor's bytes. `entries` is the model's description of their place: location, and perhaps offset and length.
// The location must be a regular file below the model's folder: absolute paths, paths out of the folder and links out
// of it are refused. However, if the model file is a link itself, links may lead to files below the folder that it
// links to. (In the cache of Hugging Face, models and their data are links into one folder.) A model without a folder
// is an error.
Result<graph::SharedBytes> ReadExternalData(const ModelFolder& folder,
                                            const std::map<std::string, std::string>& entries,
                                            const graph::TensorSpec& spec);

}  // namespace autotune::onnx_import
