// A round: one batch of candidates of several tasks, measured beside the run's reference kernel. Stateless.
#pragma once
#include <optional>
#include <vector>

#include "tuner/measurer.h"
#include "tuner/task_state.h"

namespace autotune {

struct Planned {
  TaskState* task = nullptr;
  Proposal proposal;
  double cutoff_seconds = 0;  // 0: never cut off
};

// One outcome per candidate, in their order, each with the time of `reference`, if there is one. A candidate that one
// preemption may have pushed beyond its cutoff is measured a second time, and that outcome counts. Errors: as
// Measurer::Measure.
Result<std::vector<Outcome>> MeasureRound(Measurer& measurer, const std::vector<Planned>& plan,
                                          const std::optional<MeasureItem>& reference, const MeasureOptions& options);

}  // namespace autotune
