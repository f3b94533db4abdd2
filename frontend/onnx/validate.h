// Checks the structure of an ONNX graph: the rules that hold whatever the operators are. The importer and graph/op.h
// check operators, types and shapes. Internal to frontend/onnx; stateless, thread-safe.
#pragma once
#include "frontend/onnx/proto_reader.h"
#include "support/result.h"

namespace autotune::onnx_import {

// Checks that every node has an output, and that every tensor that a node or an output reads is an input, an
// initializer or the result of an earlier node; in a subgraph, perhaps of the graphs around it. The error names the
// node and the tensor, and distinguishes a cycle, a wrong order and a tensor that does not exist. Checks the same of
// functions, and that none calls itself, directly or through others.
Status CheckStructure(const OnnxModel& model);

}  // namespace autotune::onnx_import
