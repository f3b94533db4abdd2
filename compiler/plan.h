// Plan: from a fused graph and the names of its kernels to what the executor runs. Internal to compiler/. Stateless.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/graph_json.h"
#include "runtime/params.h"

namespace autotune {

// What a node of the fused graph becomes. Ignored for reshapes, which follow their operand.
struct NodeCode {
  std::string kernel;       // function in the library
  std::string hash;         // of its task; may be empty
  int64_t device = kDLCPU;  // DLPack's device type
};

// Bytes on one device.
struct MemoryUse {
  int64_t workspace = 0;  // intermediate values
  int64_t constants = 0;
  int64_t io = 0;  // inputs and outputs
};

struct ExecutionPlan {
  Graph graph;    // variables: the inputs under their names, then the constants; then the nodes in order, with copies
  Params params;  // the constants
  std::map<int64_t, MemoryUse> memory;  // by device
};

// `code`: of each node of `fused`. A variable lies on the device of its first reader; a reshape of it counts as one. A
// value that another device reads, too, is copied there once, by a node of function kCopyFunction before the first such
// reader. Outputs lie where they are computed.
Result<ExecutionPlan> MakePlan(const graph::Graph& fused, const std::vector<NodeCode>& code);

}  // namespace autotune
