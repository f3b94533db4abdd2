// `autotune records`: its subcommands and their options.
#include "tools/autotune/command.h"
#include "records/open.h"
#include "target/target.h"
#include "tools/autotune/records/records.h"

namespace autotune::tools {

Result<std::unique_ptr<RecordStore>> OpenExistingStore(const std::string& db) {
  return OpenStore(db.empty() ? TRY(DefaultStorePath()) : db, {.create = false});
}

std::string LabelOf(const Record& record) {
  const std::string* label = record.facts["label"].As<std::string>();
  return label ? *label : "";
}

Result<Record> FindRecord(RecordStore& store, const std::string& name) {
  if (IsRecordId(name)) {
    std::optional<Record> record = TRY(store.Get(name));
    if (!record) return Err("the database has no record ", name);
    return std::move(*record);
  }
  if (name.empty() || name.find_first_not_of("0123456789abcdef") != std::string::npos)
    return Err("'", name, "' is neither a record's id nor the first digits of a task's hash; `autotune records show`",
               " lists both");
  std::vector<TaskSummary> found;
  for (TaskSummary& task : TRY(store.Tasks())) {
    if (task.task.starts_with(name) && task.ranked > 0) found.push_back(std::move(task));
  }
  if (found.empty()) return Err("the database has no task ", name, "... with a record that ran and is right");
  std::string host = TRY(Target::Parse("cpu")).Text();
  const TaskSummary* chosen = found.size() == 1 ? &found[0] : nullptr;
  for (const TaskSummary& task : found) {
    if (task.task != found[0].task) return Err(name, "... means several tasks: ", found[0].task, ", ", task.task);
    if (task.target == host) chosen = &task;
  }
  if (!chosen) {
    return Err("task ", found[0].task, " has records for ", found.size(), " targets, none of them this machine; name",
               " a record by its id");
  }
  return *TRY(store.Best(chosen->task, chosen->target));
}

Command RecordsCommand(CLI::App& root) {
  CLI::App* app = root.add_subcommand("records", "Looks into a tuning database, moves, prunes and checks its records.");
  app->require_subcommand(1);
  auto options = std::make_shared<RecordsOptions>();
  auto chosen = std::make_shared<Result<int> (*)(const RecordsOptions&)>(nullptr);
  auto add = [&](const char* name, const char* help, Result<int> (*work)(const RecordsOptions&)) {
    CLI::App* command = app->add_subcommand(name, help);
    command->add_option("--db", options->db,
                        "the tuning database; default AUTOTUNE_DB, else autotune/records.db in your data directory");
    command->callback([chosen, work] { *chosen = work; });
    return command;
  };
  constexpr char kTask[] = "only this task: the first digits of its hash";
  add("stats", "Counts what is there.", ShowStatistics);
  CLI::App* show = add("show", "Lists the best record of every task, or shows one record.", ShowRecords);
  show->add_option("record", options->record, "a record's id, or the first digits of a task's hash: its best record");
  show->add_option("--task", options->task, kTask);
  CLI::App* exported = add("export", "Writes all records as JSON lines.", ExportRecords);
  exported->add_option("-o,--output", options->file, "the file to write; default: standard output");
  exported->add_option("--task", options->task, kTask);
  CLI::App* imported =
      add("import", "Stores records from JSON lines; those known already are left alone.", ImportRecords);
  imported->add_option("file", options->file, "what export wrote")->required();
  CLI::App* merged =
      add("merge", "Stores the records of another database; those known already are left alone.", MergeRecords);
  merged->add_option("other", options->file, "the other database")->required();
  CLI::App* pruned = add("prune", "Deletes all but the best schedules of every task.", PruneRecords);
  pruned->add_option("--keep", options->keep, "schedules to keep per task and target")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  pruned->add_flag("--dry-run", options->dry_run, "say what would be deleted, and delete nothing");
  CLI::App* verified = add("verify",
                           "Checks the file, then replays, compiles and runs the best record of every task and "
                           "compares it with the fp64 reference.",
                           VerifyRecords);
  verified->add_option("--task", options->task, kTask);
  verified->add_flag("--measure", options->measure, "measure too, and show the time beside the recorded one");
  return {app, [options, chosen] { return (*chosen)(*options); }};
}

}  // namespace autotune::tools
