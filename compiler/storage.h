// Storage: which values of an execution plan share memory, because they are never needed at the same time. Thread-safe.
// Plans sizes, allocates nothing. Internal to compiler/.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "runtime/graph_json.h"

namespace autotune {

struct StoragePlan {
  std::vector<int64_t> bytes;                  // by storage id, multiples of 64
  std::map<int64_t, int64_t> workspace_bytes;  // by device: of the storages of neither a variable nor an output
};

// Sets the storage id of every entry of `graph`. Variables (inputs and parameters) and outputs get storages of their
// own, kept throughout; a reshape shares its operand's. All others share by liveness with those of their device: each
// takes the free storage that fits best, or the largest free one, enlarged, or a new one. A node's result never shares
// with its operands.
StoragePlan AssignStorage(Graph& graph);

}  // namespace autotune
