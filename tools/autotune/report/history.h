// What a database knows about the tasks of a report: the best time over trials, failures, and choices for networks.
#pragma once
#include <string>
#include <vector>

#include "records/store.h"
#include "support/result.h"
#include "tools/autotune/report/model.h"

namespace autotune::tools::report {

// Fills the histories of `report.kernels`, and the progress and failures of all of them together, from the records of
// the target. A task without records gets no history.
Status AddHistories(RecordStore& store, const std::string& target, Report& report);

// Adds the choices for `target` whose tasks are those of `report.kernels`; of a report of a database, all of them.
Status AddChoices(RecordStore& store, const std::string& target, Report& report);

}  // namespace autotune::tools::report
