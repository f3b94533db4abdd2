// Plan: makes the executor's plan from a fused graph and the names of its kernels. Internal to compiler/. Stateless.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/graph_json.h"
#include "runtime/params.h"

namespace autotune {

// The code that a node of the fused graph becomes. Reshapes have no kernel and no hash, since they alias their operand.
struct NodeCode {
  std::string kernel;       // function in the library
  std::string hash;         // hash of the node's task; may be empty
  int64_t device = kDLCPU;  // DLPack's device type
};

// Memory on one device, in bytes.
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

// Makes the plan. `code` has one entry per node of `fused`. A variable, or a reshape of it, is on the device of its
// first reader. If another device reads a value, too, a node of function kCopyFunction copies the value there once,
// before its first reader on that device. Outputs stay on the device that computes them.
Result<ExecutionPlan> MakePlan(const graph::Graph& fused, const std::vector<NodeCode>& code);

}  // namespace autotune
