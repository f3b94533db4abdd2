// The tasks of a network, for `--tasks`: selects and lists them. Thread-safe.
#pragma once
#include <string>
#include <vector>

#include "compiler/network.h"
#include "records/store.h"
#include "support/result.h"
#include "target/target.h"

namespace autotune::tools {

// Returns the tasks that `patterns` selects, in the order of `tasks`; all tasks if `patterns` is empty. Commas separate
// the patterns, except in brackets. A pattern selects every task whose label contains the pattern or matches it as a
// glob (* and ?). If no label does, the pattern selects the task whose id begins with it. Errors: a pattern selects
// nothing; the ids of several tasks begin with it.
Result<std::vector<TuneTask>> SelectTasks(const std::vector<TuneTask>& tasks, const std::string& patterns);

// Prints one line per task: id, calls, work, share of the network's work, best time in the database, label. `store` is
// null if there is no database yet. Labels are cut to a terminal of `width` columns; 0: they are not cut. With --json,
// each line is a JSON object.
Status PrintTasks(const Network& network, const Target& target, RecordStore* store, int width);

}  // namespace autotune::tools
