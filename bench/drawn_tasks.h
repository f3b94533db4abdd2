// Tasks of all kinds, with shapes drawn by a seed: what the oracle measures. Deterministic: task i of a seed is the
// same however many are drawn.
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

// Every kind once in each 20 tasks.
std::vector<std::string> TaskKinds();

// The network of task `index`: one operator and its epilogue.
graph::Graph DrawGraph(uint64_t seed, int index);

// Errors: as of MakeNetwork.
Result<std::vector<DrawnTask>> DrawTasks(uint64_t seed, int count, const Target& target, Builder& builder);

}  // namespace autotune::bench
