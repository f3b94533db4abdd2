// Checks the structure of an ONNX graph: the rules that do not depend on the operators. The importer and graph/op.h
// check operators, types and shapes. Internal to frontend/onnx; stateless, thread-safe.
#pragma once
#include "frontend/onnx/proto_reader.h"
#include "support/result.h"

namespace autotune::onnx_import {

// Checks that every node has an output, and that every tensor is defined before a node or an output reads it: as an
// input, as an initializer or as the result of an earlier node. A subgraph may also read the tensors of the graphs
// around it. Functions must meet the same rules, and no function may call itself, directly or through others. An error
// names the node and the tensor, and says whether the node is in a cycle, the nodes are in a wrong order, or the tensor
// does not exist.
Status CheckStructure(const OnnxModel& model);

}  // namespace autotune::onnx_import
