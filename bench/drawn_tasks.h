// The tasks of the oracle: tasks of all kinds, with shapes drawn by a seed. Deterministic: task i of a seed does not
// depend on the number of tasks drawn.
#pragma once
#include <string>
#include <vector>

#include "codegen/builder.h"
#include "graph/graph.h"
#include "target/target.h"
#include "tuner/task.h"

namespace autotune::bench {

struct DrawnTask {
  std::string kind;  // "conv 3x3", "softmax", ...
  TuneTask task;
};

// Returns the names of the kinds, in the order in which tasks cycle through them.
std::vector<std::string> TaskKinds();

// Returns the network of task `index`: one operator and its epilogue.
graph::Graph DrawGraph(uint64_t seed, int index);

// Returns the tasks 0 ... count - 1 of a seed. Errors: as of MakeNetwork.
Result<std::vector<DrawnTask>> DrawTasks(uint64_t seed, int count, const Target& target, Builder& builder);

}  // namespace autotune::bench
