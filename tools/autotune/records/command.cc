// Declares `autotune records`, its subcommands and their options.
#include "tools/autotune/command.h"
#include "records/open.h"
#include "support/hint.h"
#include "support/task_id.h"
#include "target/target.h"
#include "tools/autotune/records/records.h"
#include "tools/autotune/usage.h"

namespace autotune::tools {

Result<std::unique_ptr<RecordStore>> OpenExistingStore(const std::string& db) {
  return OpenStore(db.empty() ? TRY(DefaultStorePath()) : db, {.create = false});
}

namespace {

// Finds the one record whose id begins with `prefix` by reading all records.
Result<Record> FindRecordById(RecordStore& store, const std::string& prefix) {
  constexpr int kPage = 500;
  std::optional<Record> found;
  for (int64_t cursor = 0;;) {
    RecordPage page = TRY(store.Scan({}, cursor, kPage));
    if (page.records.empty()) break;
    cursor = page.cursor;
    for (Record& record : page.records) {
      if (!record.id.starts_with(prefix)) continue;
      if (found) return WithHint(Err("several records have an id that begins with ", prefix), "give more digits");
      found = std::move(record);
    }
  }
  if (!found) return Err("the database has no record ", prefix, "...");
  return std::move(*found);
}

}  // namespace

Result<Record> FindRecord(RecordStore& store, const std::string& name) {
  if (IsRecordId(name)) {
    std::optional<Record> record = TRY(store.Get(name));
    if (!record) return Err("the database has no record ", name);
    return std::move(*record);
  }
  // Ids of records contain dashes, hashes of tasks do not.
  const bool hex = name.find_first_not_of("0123456789abcdef-") == std::string::npos;
  if (hex && name.find('-') != std::string::npos) return FindRecordById(store, name);
  if (!IsTaskIdPrefix(name)) {
    return WithHint(Err("'", name, "' is neither a record's id nor a task's"),
                    "`autotune records show` lists the tasks, `autotune records show TASK` the best record of one");
  }
  std::vector<TaskSummary> ranked;
  std::vector<std::string> hashes;
  for (TaskSummary& task : TRY(store.Tasks())) {
    if (!task.task.starts_with(name) || task.ranked == 0) continue;
    hashes.push_back(task.task);
    ranked.push_back(std::move(task));
  }
  if (ranked.empty()) return Err("the database has no task ", name, "... with a record that ran and is right");
  TRY(FindTask(hashes, name));  // fails if several tasks match
  std::string host = TRY(Target::Parse("cpu")).Text();
  const TaskSummary* chosen = ranked.size() == 1 ? &ranked[0] : nullptr;
  for (const TaskSummary& task : ranked) {
    if (task.target == host) chosen = &task;
  }
  if (!chosen) {
    return WithHint(Err("task ", name, " has records for ", ranked.size(), " targets, none of them this machine"),
                    "name a record by its id");
  }
  return *TRY(store.Best(chosen->task, chosen->target));
}

Command RecordsCommand(CLI::App& root) {
  CLI::App* app = root.add_subcommand("records", "Shows, copies, prunes and checks the records of a tuning database.");
  app->require_subcommand(1);
  auto options = std::make_shared<RecordsOptions>();
  auto chosen = std::make_shared<Result<int> (*)(const RecordsOptions&)>(nullptr);
  auto add = [&](const char* name, const char* help, const char* fields, Result<int> (*work)(const RecordsOptions&)) {
    CLI::App* command = app->add_subcommand(name, help);
    command->add_option("--db", options->db,
                        "the tuning database; default AUTOTUNE_DB, else autotune/records.db in your data directory");
    AddOutput(*command, fields);
    command->callback([chosen, work] { *chosen = work; });
    return command;
  };
  constexpr char kTask[] = "only this task: its id, as tables show it, or any other beginning of its hash";
  constexpr char kVerbose[] = "targets, hashes and record ids in full";
  CLI::App* stats = add("stats", "Counts records, trials and tasks.", "their numbers and the targets", ShowStatistics);
  stats->add_flag("--verbose", options->verbose, kVerbose);
  CLI::App* show =
      add("show", "Lists the best record of every task, or shows one record.", "each task, or the record", ShowRecords);
  show->add_option("record", options->record,
                   "the id of a record, or of a task for its best record; a beginning of the id is enough");
  show->add_option("--task", options->task, kTask);
  show->add_flag("--verbose", options->verbose, kVerbose);
  CLI::App* choice = add("choice", "Shows or clears the schedules chosen for whole networks, which compile follows.",
                         "each choice with its comparisons and schedules; with --clear those deleted", ShowChoices);
  choice->add_option("network", options->network, "only this network: the model's name, or a beginning of its hash");
  choice->add_flag("--clear", options->clear, "delete the choice; compile then takes the best records");
  choice->add_flag("--verbose", options->verbose, kVerbose);
  CLI::App* exported =
      add("export", "Writes all records: as lines of JSON, as CSV, or as T4, the format for results of auto-tuners.",
          "always", ExportRecords);
  exported->add_option("-o,--output", options->file, "the file to write; default: standard output");
  exported->add_option("--task", options->task, kTask);
  exported->add_option("--format", options->format, "jsonl, which import reads, csv or t4")
      ->check(CLI::IsMember({"jsonl", "csv", "t4"}))
      ->capture_default_str();
  exported->add_flag("--features", options->features, "with the features from which the cost model learns");
  CLI::App* imported = add("import", "Stores records from JSON lines, except those that the database already has.",
                           "from, records, stored", ImportRecords);
  imported->add_option("file", options->file, "a file that export wrote")->required();
  CLI::App* merged = add("merge", "Stores the records of another database, except those already present.",
                         "from, records, stored", MergeRecords);
  merged->add_option("other", options->file, "the other database")->required();
  CLI::App* pruned =
      add("prune", "Deletes all but the best schedules of every task.", "dry_run, deleted, kept, keep", PruneRecords);
  pruned->add_option("--keep", options->keep, "schedules to keep per task and target")
      ->check(AtLeastOne())
      ->capture_default_str();
  pruned->add_flag("--dry-run", options->dry_run, "say what would be deleted, and delete nothing");
  CLI::App* verified = add("verify",
                           "Checks the file, then replays, compiles and runs the best record of every task and "
                           "compares it with the fp64 reference.",
                           "the verdict on each record, and their numbers last", VerifyRecords);
  verified->add_option("--task", options->task, kTask);
  verified->add_flag("--measure", options->measure, "measure too, and show the time beside the recorded one");
  return {app, [options, chosen] { return (*chosen)(*options); },
          [options, show] {
            return options->record.empty() ? Status()
                                           : RefuseGiven(*show, {"--task"}, "a record or task is named already");
          }};
}

}  // namespace autotune::tools
