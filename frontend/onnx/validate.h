// Checks of a model's structure: what must hold of every ONNX graph whatever its operators. Internal to frontend/onnx;
// stateless, thread-safe. Not operators, types or shapes: those are the importer's and graph/op.h's.
#pragma once
#include "frontend/onnx/proto_reader.h"
#include "support/result.h"

namespace autotune::onnx_import {

// Every tensor that a node or an output reads is an input, an initializer or the result of an earlier node. The error
// names the node and the tensor, and tells a cycle from a wrong order and from a tensor that does not exist.
Status CheckStructure(const OnnxModel& model);

}  // namespace autotune::onnx_import
