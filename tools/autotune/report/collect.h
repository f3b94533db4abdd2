// Collects reports. The sources of a report are measured, or read from a database, before.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "records/store.h"
#include "support/result.h"
#include "tools/autotune/explain_source.h"
#include "tools/autotune/report/model.h"

namespace autotune::tools::report {

// Returns the median of each load's values (ExplainSource::loads).
std::vector<double> LoadMedians(const std::vector<double>& values, const std::vector<size_t>& loads);

// Fills in the program, this machine and the time.
void Sign(Report& report);

// Sets the numbers of a kernel that follow from the time of all of its calls, and those that follow from the sum over
// all kernels. Sorts the kernels by time, those without one last.
void AddShares(Report& report, const std::optional<Roofline>& roofline);

// Returns the report of a network's kernels as they were measured and explained.
Result<Report> ReportOfNetwork(const ExplainSource& source);

// Returns the report of the tasks in a database that have records for `target`, by their best records. `roofline`: of
// the target's machine, if it is known. Errors: there are no records.
Result<Report> ReportOfDatabase(RecordStore& store, const Target& target, const std::optional<Roofline>& roofline);

}  // namespace autotune::tools::report
