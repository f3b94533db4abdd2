// Kernels: one built kernel for every task: the best recorded schedule that still replays and builds, else a default
// one. Internal to compiler/. Blocks while build workers work.
#pragma once
#include <string>
#include <vector>

#include "compiler/compile.h"

namespace autotune {

struct KernelSet {
  std::string library;                // the linked shared object; empty if there are no tasks
  std::vector<std::string> names;     // of the kernel of each task
  std::vector<KernelChoice> choices;  // parallel to the tasks
};

// Errors: a task for which nothing builds, with the last cause.
Result<KernelSet> BuildKernels(const std::vector<TuneTask>& tasks, const Target& target, const ScheduleSources& sources,
                               Builder& builder);

// Several kernels for every task, in one library, to be compared in the network.
struct KernelVariants {
  std::string library;
  std::vector<std::vector<std::string>> names;     // of each task's kernels
  std::vector<std::vector<KernelChoice>> choices;  // parallel to `names`
};

// Of each task its default schedule, then up to `competitors` others that build: the one of the choice, and its best
// records. All are distinct.
Result<KernelVariants> BuildVariants(const std::vector<TuneTask>& tasks, const Target& target,
                                     const ScheduleSources& sources, int competitors, Builder& builder);

}  // namespace autotune
