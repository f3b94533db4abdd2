// Lists the tasks of a network, for `--tasks list`. Thread-safe.
#pragma once
#include <string>

#include "compiler/network.h"
#include "records/store.h"
#include "support/result.h"
#include "target/target.h"

namespace autotune::tools {

// Prints one line per task: id, calls, work, share of the network's work, best time in the database, label. `store` is
// null if there is no database yet. Labels are cut to a terminal of `width` columns; 0: they are not cut. With --json,
// each line is a JSON object.
Status PrintTasks(const Network& network, const Target& target, RecordStore* store, int width);

}  // namespace autotune::tools
