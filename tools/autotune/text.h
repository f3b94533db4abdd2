// Functions that format texts for the messages of several commands, besides those of service/text.h. Thread-safe.
#pragma once
#include <string>

#include "service/text.h"

namespace autotune::tools {

// Returns a row of a table: its columns, and a name behind them, which is cut to a terminal of `width` columns. 0: it
// is not cut.
std::string Row(const std::string& columns, const std::string& name, int width);

}  // namespace autotune::tools
