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

// `store` may be null: default schedules. Errors: a task for which nothing builds, with the last cause.
Result<KernelSet> BuildKernels(const std::vector<TuneTask>& tasks, const Target& target, RecordStore* store,
                               Builder& builder);

}  // namespace autotune
