// Default schedules: the schedules of a task that has no records. `compile` and the tuner try them in the same order,
// so that the tuner's incumbent is the schedule that `compile` would use without records. Stateless.
#pragma once
#include <vector>

#include "tuner/search.h"

namespace autotune {

// Returns at most n schedules, in the order in which to try them. They begin with seeded draws. Three quarters have the
// best draft scores among bodies that are each at most 0.75 times as large as the previous one, since a build may
// reject a body whose registers spill. The last quarter are the best draws with the smallest bodies that their sketches
// have, which builds rarely reject.
std::vector<Proposal> DefaultProposals(const TaskSpace& space, int n);

// Returns the candidates in the order in which they are tried. The first one that builds is the default schedule. The
// last one is the program without a schedule (an empty trace), which is slow but right.
std::vector<Proposal> DefaultCandidates(const TaskSpace& space);

}  // namespace autotune
