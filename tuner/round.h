// A round: measures one batch of candidates of several tasks, together with the run's reference kernel. Stateless.
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

// Returns one outcome per candidate, in their order, each with the time of `reference`, if given. The reference is
// measured before and after the candidates. Its time is 0 if the two measurements differ. If one of them was cancelled,
// all candidates are. A candidate that may have exceeded its cutoff because it was preempted is measured a second time.
// The second outcome counts if it is ok or cancelled. Errors: as Measurer::Measure.
Result<std::vector<Outcome>> MeasureRound(Measurer& measurer, const std::vector<Planned>& plan,
                                          const std::optional<MeasureItem>& reference, const MeasureOptions& options);

}  // namespace autotune
