// Storage: decides which values of an execution plan share memory, because they are never needed at the same time.
// Thread-safe. Allocates no memory. Internal to compiler/.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "runtime/graph_json.h"

namespace autotune {

struct StoragePlan {
  std::vector<int64_t> bytes;                  // size of each storage, by storage id; a multiple of 64
  std::map<int64_t, int64_t> workspace_bytes;  // by device: size of all storages of intermediate values
};

// Sets the storage id of every entry of `graph`. Variables (inputs and parameters) and outputs get storages of their
// own for the whole run; a reshape shares the storage of its operand. All other values share storages with values of
// their device whose live ranges are disjoint. Each takes the smallest free storage that is large enough, else enlarges
// the largest free one, else gets a new one. A node's result never shares a storage with the node's operands.
StoragePlan AssignStorage(Graph& graph);

}  // namespace autotune
