// Parallel loops as all code generators for CPUs see them: what the body of such a loop takes from the function around
// it, and how its iterations are divided into tasks. Plain values; thread-safe. Internal to codegen/.
#pragma once
#include <functional>
#include <vector>

#include "codegen/memory.h"

namespace autotune {

// A loop runs as 1 task on one thread, else as this many per thread, at most one per iteration and kMaxTasks in all.
// Task t of n runs the iterations from t * extent / n up to (t + 1) * extent / n.
inline constexpr int kTasksPerThread = 8;  // enough to even out slow tasks, few enough to cost nothing
inline constexpr int64_t kMaxTasks = 1 << 30;

struct Captures {
  std::vector<PointerParam> buffers;  // those that have memory around the loop
  std::vector<Name> scalars;          // those that are defined around the loop; all are i64
  Workspace workspace;                // scratch memory of each task

  // The pointer parameters of the body: `buffers`, then the slots of `workspace`.
  std::vector<PointerParam> Pointers() const;
};
// `has_memory` and `is_defined` tell which buffers and variables exist around the loop.
Captures CapturesOf(const For& loop, const std::function<bool(const Name&)>& has_memory,
                    const std::function<bool(const Name&)>& is_defined);

}  // namespace autotune
