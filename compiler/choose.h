// ChooseSchedules: the last word of a tuning run. Which schedules are best is decided on the whole network, where
// kernels meet warm caches and each other, in three stages:
// 1. Every task's default schedule and its best records are linked into one library. The network runs with random
//    combinations of them, in blocks in which every task runs each of its kernels (a randomized block design): the
//    time of each kernel, amid whatever its neighbours are, is compared with the default's of the same block.
// 2. A task keeps a tuned kernel if it is significantly faster at one number of threads and not significantly slower
//    at the other; else it keeps its default schedule.
// 3. The package made of these schedules and the untuned package run in turns at each number of threads. The tuned one
//    is chosen by the same rule, as a whole; else the network keeps all default schedules.
// So a network is never slower for having been tuned, as far as its comparison can tell. A choice that the store has
// already competes, too, and stays unless the new one gains more. Runs kernels on this host.
#pragma once
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "support/statistics.h"

namespace autotune {

struct ChooseOptions {
  // Over all stages and numbers of threads. Building is included, but takes at most half of the comparison's share.
  double max_seconds = 10;
  double half_width = 0.005;  // the last comparison is enough at this half-width of its interval
  uint64_t seed = 0;          // of the combinations
  std::function<void(double done)> on_progress = nullptr;  // told the share that is done, in [0, 1]
  const std::atomic<bool>* stop = nullptr;                 // set to true: ends soon, and chooses nothing
};

struct ChosenNetwork {
  NetworkChoice choice;    // its comparisons are of the schedules that were tried, even if the defaults were kept
  CompileResult compiled;  // from `choice`
  int tuned_tasks = 0;     // that run a tuned schedule
  int tasks_with_records = 0;
  bool kept_defaults = false;  // all tasks run default schedules: nothing was significantly faster
  // The choice is the one that the store had: by its own comparisons it gains more over the defaults than the new one.
  bool kept_previous = false;
  bool stopped = false;  // by `stop`; the rest is empty
  double seconds = 0;    // building included
};

// Needs `target` to be this host's. `store` holds what competes; the choice is not stored in it. Errors: a
// task for which nothing builds; a kernel that fails; no memory.
Result<ChosenNetwork> ChooseSchedules(const Network& network, const Target& target, RecordStore& store,
                                      Builder& builder, const ChooseOptions& options = {});

// Whether a change is worth making, from the ratios changed / unchanged at each number of threads: significantly
// faster at one of them, and not significantly slower at any.
bool IsImprovement(const std::vector<MedianInterval>& ratios);

}  // namespace autotune
