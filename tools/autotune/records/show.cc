// `autotune records stats` and `autotune records show`.
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <set>

#include "records/open.h"
#include "tools/autotune/records/records.h"

namespace autotune::tools {
namespace {

std::string TimeText(int64_t unix_ms) {
  std::time_t seconds = unix_ms / 1000;
  std::tm utc{};
  char text[32];
  if (unix_ms < 0 || !gmtime_r(&seconds, &utc) || !std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc))
    return std::to_string(unix_ms) + " ms after 1970";
  return text;
}

// One table row per task and target.
Result<int> ListTasks(RecordStore& store, const std::string& prefix) {
  std::string target;
  int listed = 0;
  for (const TaskSummary& task : TRY(store.Tasks())) {
    if (!task.task.starts_with(prefix)) continue;
    if (listed++ == 0) std::printf("%-32s %8s %8s %12s  %s\n", "task", "records", "trials", "best ms", "best record");
    std::printf("%s %8ld %8ld ", task.task.c_str(), static_cast<long>(task.records), static_cast<long>(task.trials));
    std::optional<Record> best = TRY(store.Best(task.task, task.target));
    if (best) {
      std::printf("%12.4f  %s  %s\n", best->cost * 1e3, best->id.c_str(), LabelOf(*best).c_str());
    } else {
      std::printf("%12s  none that ran and is right\n", "-");
    }
    std::printf("  on %s\n", task.target.c_str());
  }
  if (listed == 0) return Err("no record", prefix.empty() ? " in this database" : " of a task " + prefix + "...");
  return 0;
}

void PrintRecord(const Record& r) {
  auto line = [](const char* name, const std::string& value) { std::printf("%-14s %s\n", name, value.c_str()); };
  line("record", r.id);
  line("task", r.task + (LabelOf(r).empty() ? "" : "  " + LabelOf(r)));
  line("target", r.target);
  line("status", std::string(ToText(r.status)) + (r.verified ? ", compared with the reference" : ", not compared"));
  if (!r.error.empty()) line("error", r.error);
  char text[64];
  std::snprintf(text, sizeof text, "%.6f ms", r.cost * 1e3);
  line("cost", r.cost > 0 ? text : "not measured");
  std::string times;
  for (double t : r.times) {
    std::snprintf(text, sizeof text, "%s%.6f", times.empty() ? "" : " ", t * 1e3);
    times += text;
  }
  if (!times.empty()) line("times, ms", times);
  line("alternative", r.alternative);
  line("device", r.device);
  line("made at", TimeText(r.created_at));
  line("run", r.run + ", seed " + std::to_string(r.seed));
  line("versions", "ir " + std::to_string(r.versions.ir) + ", steps " + std::to_string(r.versions.step_language) +
                       ", features " + std::to_string(r.versions.feature_schema) + ", code generator " +
                       std::to_string(r.versions.code_generator));
  line("facts", r.facts.Dump());
  std::printf("\ntrace\n%s\nprogram\n%s\n", r.trace.c_str(), r.func.c_str());
}

}  // namespace

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
  std::printf("%s: %.1f MB\n", path.c_str(), error ? 0.0 : static_cast<double>(bytes) / 1e6);
  std::printf("%ld records: %ld trials (executed), %ld of them ran and are right\n", static_cast<long>(all.records),
              static_cast<long>(all.trials), static_cast<long>(all.ranked));
  for (size_t i = 0; i < std::size(EnumNames<TrialStatus>::kNames); ++i) {
    TrialStatus status = static_cast<TrialStatus>(i);
    int64_t count = TRY(store->Count({.status = status}));
    if (count > 0) std::printf("  %-20s %9ld\n", std::string(ToText(status)).c_str(), static_cast<long>(count));
  }
  std::printf("%zu tasks on %zu targets", hashes.size(), targets.size());
  if (without > 0) std::printf("; %ld without a schedule that ran and is right", static_cast<long>(without));
  std::printf("\n");
  for (const std::string& target : targets) std::printf("  %s\n", target.c_str());
  return 0;
}

Result<int> ShowRecords(const RecordsOptions& options) {
  std::unique_ptr<RecordStore> store = TRY(OpenExistingStore(options.db));
  if (options.record.empty()) return ListTasks(*store, options.task);
  PrintRecord(TRY(FindRecord(*store, options.record)));
  return 0;
}

}  // namespace autotune::tools
