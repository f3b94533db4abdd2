// The tables of a choice of precisions, for people.
#pragma once
#include <string>

#include "service/events.h"

namespace autotune::tools {

// Returns what was measured and chosen, and the precision of each product. `width`: columns of the terminal, to which
// names are cut; 0: names in full.
std::string PrecisionTable(const event::Precisions& chosen, int width);

}  // namespace autotune::tools
