// Parallel loops, for all code generators for CPUs: the buffers and variables that the body of a parallel loop takes
// from the function around it, and the division of its iterations into tasks. Plain values; thread-safe. Internal to
// codegen/.
#pragma once
#include <functional>
#include <vector>

#include "codegen/memory.h"

namespace autotune {

// On one thread, a parallel loop runs as one task. On several threads it runs as kTasksPerThread tasks per thread, but
// at most one task per iteration and kMaxTasks tasks in all. Task t of n runs the iterations from t * extent / n to
// (t + 1) * extent / n, exclusive.
inline constexpr int kTasksPerThread = 8;  // enough to balance slow tasks; more tasks would take longer to distribute
inline constexpr int64_t kMaxTasks = 1 << 30;

struct Captures {
  std::vector<PointerParam> buffers;  // buffers of the body that have memory outside of the loop
  std::vector<Name> scalars;          // variables of the body that are defined outside of the loop; all are i64
  Workspace workspace;                // scratch memory of each task

  // The pointer parameters of the body: `buffers`, then the slots of `workspace`.
  std::vector<PointerParam> Pointers() const;
};
// `has_memory` returns true for buffers that exist outside of the loop, `is_defined` for variables that do.
Captures CapturesOf(const For& loop, const std::function<bool(const Name&)>& has_memory,
                    const std::function<bool(const Name&)>& is_defined);

}  // namespace autotune
