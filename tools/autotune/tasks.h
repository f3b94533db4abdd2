// The tasks of a network, for `--tasks`: which there are, and which of them to tune. Thread-safe.
#pragma once
#include <string>
#include <vector>

#include "compiler/network.h"
#include "records/store.h"
#include "support/result.h"
#include "target/target.h"

namespace autotune::tools {

// The tasks that `patterns` name, in the order of `tasks`; all of them if it is empty. Patterns are separated by commas
// outside of brackets. A pattern names the tasks whose label holds it, or matches it as a glob (* and ?); where no
// label does, the task whose id begins with it. Errors: a pattern that names no task, or an id that means several.
Result<std::vector<TuneTask>> SelectTasks(const std::vector<TuneTask>& tasks, const std::string& patterns);

// Prints one line per task: id, weight, work, its share of the network's, the best time in the database, label.
// `store`: null if there is no database yet. `json`: one object per line instead.
Status PrintTasks(const Network& network, const Target& target, RecordStore* store, bool json);

}  // namespace autotune::tools
