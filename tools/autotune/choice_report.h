// What the final choice of a tuning run says to a user. Stateless.
#pragma once
#include <string>

#include "compiler/choose.h"
#include "support/json.h"

namespace autotune::tools {

// Lines, each ended: how much faster the whole network is than with default schedules, at each number of threads, with
// its interval; or that it keeps them.
std::string ChoiceText(const ChosenNetwork& chosen);

// The same as members of a JSON object: "comparisons" and "kept_defaults".
void AddChoice(const ChosenNetwork& chosen, Json& line);

}  // namespace autotune::tools
