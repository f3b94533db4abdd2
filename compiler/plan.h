// Plan: makes the executor's plan from a fused graph and the code of its nodes. Internal to compiler/. Stateless.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/graph_json.h"
#include "runtime/stored_params.h"

namespace autotune {

// The code of a node of the fused graph. A reshape has no kernel, since its result aliases its operand.
struct NodeCode {
  std::string kernel;       // name of the function in the library
  std::string hash;         // hash of its task; may be empty
  int64_t device = kDLCPU;  // DLPack's device type
};

// Memory on one device, in bytes.
struct MemoryUse {
  int64_t workspace = 0;  // intermediate values
  int64_t constants = 0;
  int64_t io = 0;  // inputs and outputs
};

struct ExecutionPlan {
  // First the variables (inputs, then constants), then the nodes in the order of the fused graph. Nodes that copy a
  // value to another device stand before its first reader on that device.
  Graph graph;
  std::vector<int64_t> place;  // index in `graph` of each node of the fused graph
  Params params;               // the constants
  // By name, the integers and scales that constants were made of, where that is known.
  std::map<std::string, ScaledIntegers> scaled;
  std::map<int64_t, MemoryUse> memory;  // by device
};

// Makes the plan. `code` has one entry per node of `fused`. A variable is placed on the device of its first reader, and
// the result of a reshape on the device of its operand. If nodes on another device also read a value, one node of
// function kCopyFunction copies the value to that device. Outputs stay on the device that computes them.
Result<ExecutionPlan> MakePlan(const graph::Graph& fused, const std::vector<NodeCode>& code);

}  // namespace autotune
