// The work of `autotune records ...`, one function per subcommand (docs/records.md). Each prints to standard output and
// returns the exit code. `db`: as --db gives it; a database that is not there is an error, but for import and merge.
#pragma once
#include <memory>
#include <set>
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
  bool verbose = false;  // stats, show: targets, hashes and ids in full
};

Result<std::unique_ptr<RecordStore>> OpenExistingStore(const std::string& db);
// The record that `name` means: a record's id or the first digits of one, down to its first dash; or a task's id or
// other first digits of its hash, for the task's best record: on this host's target if there are several targets, else
// on the only one. Errors: nothing has this id, or several have.
Result<Record> FindRecord(RecordStore& store, const std::string& name);
// What people call the task of a record: its label if the tuner noted it, else nothing.
std::string LabelOf(const Record& record);

// How tables call a target: in words. In full if words do not tell it from the others of `all`, or if `verbose`.
std::string TargetName(const std::string& target, const std::set<std::string>& all, bool verbose);

Result<int> ShowStatistics(const RecordsOptions& options);
Result<int> ShowRecords(const RecordsOptions& options);
Result<int> ExportRecords(const RecordsOptions& options);
Result<int> ImportRecords(const RecordsOptions& options);
Result<int> MergeRecords(const RecordsOptions& options);
Result<int> PruneRecords(const RecordsOptions& options);
Result<int> VerifyRecords(const RecordsOptions& options);

}  // namespace autotune::tools
