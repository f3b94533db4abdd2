// Default schedules: what a task is compiled with when the database knows nothing of it. `compile` and the tuner share
// this one order, so that the tuner's incumbent is what `compile` without records would use. Stateless.
#pragma once
#include <vector>

#include "tuner/search.h"

namespace autotune {

// The candidates in the order in which they are tried; the first that builds is the default. The last one is the
// program without a schedule (an empty trace), slow but right.
std::vector<Proposal> DefaultCandidates(const TaskSpace& space);

}  // namespace autotune
