// Default schedules: the schedules of a task that has no records. `compile` and the tuner try them in the same order,
// so that the tuner's incumbent is the schedule that `compile` would use without records. Stateless.
#pragma once
#include <vector>

#include "tuner/search.h"

namespace autotune {

// Returns at most n schedules, in the order in which to try them, chosen from seeded draws. The first schedule has the
// best draft score. Each further one, up to three quarters of n, has the best draft score among those whose body (the
// unrolled code) is at most 0.75 times as large as the previous one's, since a build may reject a body whose registers
// spill. The last quarter are the best draws after their bodies are made as small as possible (WithSmallestBody), which
// builds rarely reject.
std::vector<Proposal> DefaultProposals(const TaskSpace& space, int n);

// Returns the candidates in the order in which they are tried. The first one that builds is the default schedule. The
// last one is the program without a schedule (an empty trace), which is slow but right.
std::vector<Proposal> DefaultCandidates(const TaskSpace& space);

// The time that the draft score predicts for a task's default schedule on a GPU.
struct PredictedTime {
  double seconds = 0;
  // The part of stages that no rule schedules, so that lowering binds them to threads (bind_rest).
  double unbound_seconds = 0;
};
Result<PredictedTime> PredictDefault(const TuneTask& task, const Target& target);

}  // namespace autotune
