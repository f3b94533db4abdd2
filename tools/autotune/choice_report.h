// Presents the final choice of a tuning run to the user. Stateless.
#pragma once
#include <string>

#include "compiler/choose.h"
#include "support/json.h"

namespace autotune::tools {

// Returns one or more lines: how much faster the whole network is than with default schedules at each number of
// threads, with the 95 % interval; or why the network keeps its default schedules.
std::string ChoiceText(const ChosenNetwork& chosen);

// Adds these facts to a JSON object: "kept_defaults", "kept_previous", "same_schedules", "tuned_tasks",
// "choice_seconds", "comparisons".
void AddChoice(const ChosenNetwork& chosen, Json& line);

}  // namespace autotune::tools
