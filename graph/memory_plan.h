// Static memory plan: which values of a graph share storage, because they are never needed at the same time.
// Thread-safe. Plans sizes, allocates nothing.
#pragma once
#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace autotune::graph {

struct MemoryPlan {
  std::vector<int> storage_id;         // by ValueId; -1 for values that nothing defines or uses
  std::vector<int64_t> storage_bytes;  // by storage id, multiples of 64
  int64_t workspace_bytes = 0;         // of the storages that are neither an input's, a constant's nor an output's
};

// Inputs, constants and outputs get storages of their own, kept throughout; a reshape shares its operand's. All others
// share by liveness: each takes the free storage that fits best, or the largest free one, enlarged, or a new one. A
// node's result never shares with its operands.
MemoryPlan PlanMemory(const Graph& graph);

}  // namespace autotune::graph
