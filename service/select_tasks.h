// Selects tasks of a network by patterns. Thread-safe.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "compiler/network.h"
#include "support/result.h"
#include "tuner/task.h"

namespace autotune {

// The hashes of tasks that follow the schedules of another one of their family, each with that one's hash.
using Leaders = std::map<std::string, std::string>;
Leaders LeadersOf(const Network& network);

// Returns the tasks that `patterns` selects, in the order of `tasks`; all tasks if `patterns` is empty. Commas separate
// the patterns, except in brackets. A pattern selects every task whose label contains the pattern or matches it as a
// glob (* and ?). If no label does, the pattern selects the task whose id begins with it, or the one that this task
// follows, since packages and profiles name all tasks. Errors: a pattern selects nothing; the ids of several tasks
// begin with it.
Result<std::vector<TuneTask>> SelectTasks(const std::vector<TuneTask>& tasks, const std::string& patterns,
                                          const Leaders& leaders = {});

}  // namespace autotune
