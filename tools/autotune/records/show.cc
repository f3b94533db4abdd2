// Implements `autotune records stats` and `autotune records show`.
#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>
#include <set>

#include "records/open.h"
#include "support/task_id.h"
#include "support/terminal.h"
#include "tools/autotune/console.h"
#include "tools/autotune/host.h"
#include "tools/autotune/records/records.h"
#include "tools/autotune/text.h"

namespace autotune::tools {
namespace {

// Prints {"task", "hash", "target", "records", "trials", "best_ms", "best_record"}.
Status PrintTaskAsJson(RecordStore& store, const TaskSummary& task) {
  const std::optional<Record> best = TRY(store.Best(task.task, task.target));
  Json line;
  line["task"] = best ? Json(LabelOf(*best)) : Json();
  line["hash"] = task.task;
  line["target"] = task.target;
  line["records"] = task.records;
  line["trials"] = task.trials;
  line["best_ms"] = best ? Json(best->cost * 1e3) : Json();
  line["best_record"] = best ? Json(best->id) : Json();
  Console::Get().Result(line);
  return {};
}

// Prints one table per target, with one row per task.
Result<int> ListTasks(RecordStore& store, const RecordsOptions& options) {
  const int width = options.verbose ? 0 : Console::Get().WidthOut();
  std::map<std::string, std::vector<TaskSummary>> by_target;
  std::set<std::string> targets;
  for (TaskSummary& task : TRY(store.Tasks())) {
    if (!task.task.starts_with(options.task)) continue;
    targets.insert(task.target);
    by_target[task.target].push_back(std::move(task));
  }
  if (by_target.empty())
    return Err("no record", options.task.empty() ? " in this database" : " of a task " + options.task + "...");
  for (const auto& [target, tasks] : by_target) {
    if (Console::Get().json()) {
      for (const TaskSummary& task : tasks) TRY(PrintTaskAsJson(store, task));
      continue;
    }
    std::string text = "for " + TargetName(target, targets, options.verbose) + ":\n";
    text += Row(Format("%-*s %8s %8s %12s  ", options.verbose ? 32 : static_cast<int>(kTaskIdDigits), "task", "records",
                       "trials", "best time"),
                "operators and shapes", width);
    for (const TaskSummary& task : tasks) {
      const std::string numbers =
          (options.verbose ? task.task : ShortTaskId(task.task)) +
          Format(" %8ld %8ld ", static_cast<long>(task.records), static_cast<long>(task.trials));
      const std::optional<Record> best = TRY(store.Best(task.task, target));
      text += best ? Row(numbers + Format("%12s  ", TimeText(best->cost).c_str()),
                         LabelOf(*best) + (options.verbose ? "  " + best->id : ""), width)
                   : numbers + Format("%12s  none that ran and is right\n", "-");
    }
    Console::Get().Result(text +
                          WrapWords("best time: of the task's best record, which is that of the latest "
                                    "confirmation, if there was one, and else the fastest trial",
                                    width) +
                          "\n");
  }
  return 0;
}

void PrintRecord(const Record& r) {
  std::string text;
  auto line = [&](const char* name, const std::string& value) { text += Format("%-14s ", name) + value + "\n"; };
  line("record", r.id);
  line("task", ShortTaskId(r.task) + " (" + r.task + ")" + (LabelOf(r).empty() ? "" : "  " + LabelOf(r)));
  line("target", r.target);
  line("status", std::string(ToText(r.status)) + (r.verified ? ", compared with the reference" : ", not compared"));
  if (!r.error.empty()) line("error", r.error);
  line("cost", r.cost > 0 ? Format("%.3f us", r.cost * 1e6) : "not measured");
  if (!r.disturbed.empty()) line("disturbed", r.disturbed);
  std::string times;
  for (double t : r.times) times += (times.empty() ? "" : " ") + Format("%.3f", t * 1e6);
  if (!times.empty()) line("times, us", times);
  line("alternative", r.alternative);
  line("device", r.device + (r.server.empty() ? "" : " (server " + r.server + ")"));
  line("made at", DateText(r.created_at));
  line("run", r.run + ", seed " + std::to_string(r.seed));
  line("versions", "ir " + std::to_string(r.versions.ir) + ", steps " + std::to_string(r.versions.step_language) +
                       ", features " + std::to_string(r.versions.feature_schema) + ", code generator " +
                       std::to_string(r.versions.code_generator));
  line("facts", r.facts.Dump());
  Console::Get().Result(text + "\ntrace\n" + r.trace + "\nprogram\n" + r.func + "\n");
}

}  // namespace

std::string DateText(int64_t unix_ms) {
  std::time_t seconds = unix_ms / 1000;
  std::tm utc{};
  char text[32];
  if (unix_ms < 0 || !gmtime_r(&seconds, &utc) || !std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc))
    return std::to_string(unix_ms) + " ms after 1970";
  return text;
}

std::string TargetName(const std::string& target, const std::set<std::string>& all, bool verbose) {
  const std::string name = MachineText(target);
  bool unique = std::none_of(all.begin(), all.end(),
                             [&](const std::string& other) { return other != target && MachineText(other) == name; });
  return verbose || !unique ? target : name;
}

Result<int> ShowStatistics(const RecordsOptions& options) {
  std::string path = options.db.empty() ? TRY(DefaultStorePath()) : options.db;
  std::unique_ptr<RecordStore> store = TRY(OpenExistingStore(path));
  std::vector<TaskSummary> tasks = TRY(store->Tasks());
  TaskSummary all;
  std::set<std::string> hashes, targets;
  int64_t without = 0;
  for (const TaskSummary& task : tasks) {
    all.records += task.records;
    all.trials += task.trials;
    all.ranked += task.ranked;
    without += task.ranked == 0;
    hashes.insert(task.task);
    targets.insert(task.target);
  }
  std::error_code error;
  uintmax_t bytes = std::filesystem::file_size(path, error);
  std::map<std::string, int64_t> outcomes;
  for (size_t i = 0; i < std::size(EnumNames<TrialStatus>::kNames); ++i) {
    const TrialStatus status = static_cast<TrialStatus>(i);
    if (int64_t count = TRY(store->Count({.status = status})); count > 0) outcomes[std::string(ToText(status))] = count;
  }
  if (Console::Get().json()) {
    Json line;
    line["database"] = path;
    line["bytes"] = error ? Json() : Json(bytes);
    line["records"] = all.records, line["trials"] = all.trials, line["right"] = all.ranked;
    line["outcomes"] = ToJson(outcomes);
    line["tasks"] = hashes.size(), line["tasks_without_schedule"] = without;
    line["targets"] = ToJson(targets);
    Console::Get().Result(line);
    return 0;
  }
  std::string text = path + (error ? "\n" : Format(": %.1f MB\n", static_cast<double>(bytes) / 1e6));
  text += CountText(all.records, "record") + ": " + CountText(all.trials, "trial") + " (executed), " +
          std::to_string(all.ranked) + " of them ran and are right\n";
  for (const auto& [outcome, count] : outcomes)
    text += Format("  %-20s %9ld\n", outcome.c_str(), static_cast<long>(count));
  text += CountText(static_cast<int64_t>(hashes.size()), "task") + " on " +
          CountText(static_cast<int64_t>(targets.size()), "target");
  if (without > 0) text += "; " + std::to_string(without) + " without a schedule that ran and is right";
  text += "\n";
  for (const std::string& target : targets) text += "  " + TargetName(target, targets, options.verbose) + "\n";
  Console::Get().Result(text);
  return 0;
}

Result<int> ShowRecords(const RecordsOptions& options) {
  std::unique_ptr<RecordStore> store = TRY(OpenExistingStore(options.db));
  if (options.record.empty()) return ListTasks(*store, options);
  const Record record = TRY(FindRecord(*store, options.record));
  Console::Get().json() ? Console::Get().Result(ToJson(record)) : PrintRecord(record);
  return 0;
}

}  // namespace autotune::tools
