// Default schedules: the schedules of a task that has no records. `compile` and the tuner try them in the same order,
// so that the tuner's incumbent is the schedule that `compile` would use without records. Stateless.
#pragma once
#include <vector>

#include "tuner/search.h"

namespace autotune {

// Returns the candidates in the order in which they are tried. The first one that builds is the default schedule. The
// last one is the program without a schedule (an empty trace), which is slow but right.
std::vector<Proposal> DefaultCandidates(const TaskSpace& space);

}  // namespace autotune
