// Confirmation: which of a task's best candidates is the fastest. A few repeats, taken at one moment, say as much about
// the moment as about the schedule: on a shared machine a neighbour on the same physical core, or another clock, slows
// whoever is measured meanwhile, for seconds, and the least of all costs belongs to whoever was lucky. So the finalists
// are measured again in turns, in which all of them meet the same moments, and the median over the turns decides.
#pragma once
#include "tuner/measurer.h"

namespace autotune {

// One outcome per finalist: `times` of all turns in the order measured; `cost` the median over the turns of the least
// time in each. One that fails in a turn has that outcome. `options` says how long one repeat takes; nothing is cut
// off. Errors: as Measurer::Measure.
Result<std::vector<Outcome>> MeasureInTurns(Measurer& measurer, const TaskSpace& space,
                                            const std::vector<Proposal>& finalists, int turns, MeasureOptions options);

}  // namespace autotune
