// What the commands `report` and `compare` have in common.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "records/store.h"
#include "support/result.h"
#include "target/target.h"
#include "tools/autotune/explain_source.h"
#include "tools/autotune/report/model.h"

namespace autotune::tools::report {

// Returns the target whose records a report shows: `target`, or the only one of the database if `target` is "cpu".
// Errors: the database has no records, or none for this target.
Result<Target> TargetOfRecords(RecordStore& store, const std::string& target);

// Returns the report of a database. Measures this machine's ceilings if the records are its own, unless `no_run`.
Result<Report> DatabaseReport(const std::string& db, const std::string& target, bool no_run);

// Adds --threads, --seconds and --wait.
void AddRunOptions(CLI::App& app, ExplainOptions& options);

// Returns the command line with the options that were given.
std::string CommandText(const CLI::App& app);

}  // namespace autotune::tools::report
