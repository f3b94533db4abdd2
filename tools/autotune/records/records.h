// The work of `autotune records ...`, one function per subcommand (docs/records.md). Each prints to standard output and
// returns the exit code. `db` is the value of --db. If there is no such database, import and merge make one, and the
// other subcommands return an error.
#pragma once
#include <memory>
#include <set>
#include <string>

#include "records/store.h"
#include "service/record_export.h"
#include "support/result.h"

namespace autotune::tools {

// The options of all subcommands; each option names the subcommands that use it.
struct RecordsOptions {
  std::string db;
  std::string task;              // the first digits of a task's hash; empty: all
  std::string record;            // show: a name that FindRecord takes; empty: a table
  std::string file;              // export, import: the file (export: empty for standard output); merge: a database
  std::string format = "jsonl";  // export: a name of ExportFormat
  bool features = false;         // export: with the features of each record
  int keep = 10;                 // prune: schedules per task and target
  bool dry_run = false;          // prune
  bool measure = false;          // verify: measure too
  std::string network;           // choice: a model's name, or the beginning of a network's hash; empty: all
  bool clear = false;            // choice: delete what matches
  bool verbose = false;          // stats, show, choice: targets, hashes and ids in full
};

Result<std::unique_ptr<RecordStore>> OpenExistingStore(const std::string& db);
// Returns the record that `name` denotes:
// - a record's id, or a beginning of it that contains a dash: that record;
// - a task's id, or any other beginning of its hash: the task's best record. If the task has records for several
//   targets, the one for this host's target.
// Errors: nothing matches; several ids match; the task has records for several targets, none of them this host's.
Result<Record> FindRecord(RecordStore& store, const std::string& name);

// Returns a time of the clock in words, in UTC.
std::string DateText(int64_t unix_ms);

// Returns the name of a target for tables: its description in words. It is the target's full text if `verbose`, or if
// another target in `all` has the same description.
std::string TargetName(const std::string& target, const std::set<std::string>& all, bool verbose);

Result<int> ShowStatistics(const RecordsOptions& options);
Result<int> ShowRecords(const RecordsOptions& options);
Result<int> ShowChoices(const RecordsOptions& options);
Result<int> ExportRecords(const RecordsOptions& options);
Result<int> ImportRecords(const RecordsOptions& options);
Result<int> MergeRecords(const RecordsOptions& options);
Result<int> PruneRecords(const RecordsOptions& options);
Result<int> VerifyRecords(const RecordsOptions& options);

}  // namespace autotune::tools
