// Presents the final choice of a tuning run to the user. Stateless.
#pragma once
#include <string>

#include "compiler/choose.h"
#include "support/json.h"

namespace autotune::tools {

// Lines, each with its newline: how much faster the whole network is than with default schedules at each number of
// threads, with the 95 % interval; or why it keeps its default schedules.
std::string ChoiceText(const ChosenNetwork& chosen);

// Adds the same to a JSON object: "kept_defaults", "kept_previous", "tuned_tasks", "choice_seconds" and "comparisons".
void AddChoice(const ChosenNetwork& chosen, Json& line);

}  // namespace autotune::tools
