// Presents the final choice of a tuning run to the user. Stateless.
#pragma once
#include <string>

#include "compiler/choose.h"
#include "service/events.h"

namespace autotune {

// Returns one or more lines. For each number of threads, a line states how much faster the whole network is than with
// default schedules, with the 95 % interval. The next line states how many tasks run tuned schedules, or why the
// network keeps its former ones. If other processes may have disturbed the choice, the last line says so.
std::string ChoiceText(const ChosenNetwork& chosen);

// Returns a line for each comparison of the whole network, tuned and untuned.
std::string ComparisonsText(const std::vector<NetworkComparison>& comparisons);

// Returns the choice as a part of the event End.
event::Choice ToEvent(const ChosenNetwork& chosen);

}  // namespace autotune
