// The table of the tasks of a tuning run, for people. Stateless, thread-safe.
#pragma once
#include <string>

#include "service/events.h"

namespace autotune::tools {

struct TableStyle {
  // Columns of the terminal. Less important columns of the table are left out, and names are cut, until it fits. 0: all
  // columns, and names in full.
  int width = 0;
  bool colours = false;
};

// Returns the table and, below it, what its marks mean.
std::string TaskTable(const event::End& end, const TableStyle& style);

}  // namespace autotune::tools
