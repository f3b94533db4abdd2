// The work of `autotune records ...`, one function per subcommand (docs/records.md). Each prints to standard output and
// returns the exit code. `db`: as --db gives it; a database that is not there is an error, but for import and merge.
#pragma once
#include <memory>
#include <string>

#include "records/store.h"
#include "support/result.h"

namespace autotune::tools {

// What the subcommands have in common.
struct RecordsOptions {
  std::string db;
  std::string task;      // the first digits of a task's hash; empty: all
  std::string record;    // show: a record's id; empty: a table
  std::string file;      // export, import: JSON lines; export: empty is standard output. merge: a database
  int keep = 10;         // prune: schedules per task and target
  bool dry_run = false;  // prune
  bool measure = false;  // verify: measure too
};

Result<std::unique_ptr<RecordStore>> OpenExistingStore(const std::string& db);
// The record that `name` means: its id, or the best one of a task, by the first digits of the task's hash; of this
// host's target if there are several, else of the only one.
Result<Record> FindRecord(RecordStore& store, const std::string& name);
// What people call the task of a record: its label if the tuner noted it, else nothing.
std::string LabelOf(const Record& record);

Result<int> ShowStatistics(const RecordsOptions& options);
Result<int> ShowRecords(const RecordsOptions& options);
Result<int> ExportRecords(const RecordsOptions& options);
Result<int> ImportRecords(const RecordsOptions& options);
Result<int> MergeRecords(const RecordsOptions& options);
Result<int> PruneRecords(const RecordsOptions& options);
Result<int> VerifyRecords(const RecordsOptions& options);

}  // namespace autotune::tools
