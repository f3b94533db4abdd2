#include "tools/autotune/tasks.h"

#include <fnmatch.h>

#include <algorithm>
#include <cstdio>

#include "support/json.h"
#include "support/task_id.h"
#include "tools/autotune/console.h"
#include "tools/autotune/text.h"
#include "tuner/defaults.h"

namespace autotune::tools {
namespace {

// Splits at commas, except in the brackets of shapes: "conv2d [1,8,8,4],softmax" has two parts.
std::vector<std::string> SplitPatterns(const std::string& patterns) {
  std::vector<std::string> parts = {""};
  int depth = 0;
  for (char c : patterns) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth <= 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

bool LabelMatches(const std::string& label, const std::string& pattern) {
  if (label.find(pattern) != std::string::npos) return true;
  if (pattern.find_first_of("*?") == std::string::npos) return false;
  std::string glob;
  // Escape brackets, since labels contain them in shapes.
  for (char c : pattern) glob += c == '[' || c == ']' ? std::string("\\") + c : std::string(1, c);
  return fnmatch(glob.c_str(), label.c_str(), 0) == 0;
}

// Marks the tasks that the pattern selects.
Status Select(const std::vector<TuneTask>& tasks, const std::string& pattern, std::vector<bool>& selected) {
  bool any = false;
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (pattern.empty() || !LabelMatches(tasks[i].label, pattern)) continue;
    selected[i] = any = true;
  }
  if (any) return {};
  if (!IsTaskIdPrefix(pattern))
    return Err("--tasks: no task's label contains '", pattern, "'; --tasks list shows the labels");
  std::vector<std::string> hashes;
  for (const TuneTask& task : tasks) hashes.push_back(task.hash.Hex());
  Result<std::string> hash = FindTask(hashes, pattern);
  if (!hash.ok()) return Err("--tasks: ", hash.error().Text(), "; --tasks list shows the tasks");
  for (size_t i = 0; i < tasks.size(); ++i) selected[i] = selected[i] || hashes[i] == *hash;
  return {};
}

// Prints, for a GPU, the tasks with kernels that no rule schedules, and their share of the predicted time of all calls.
// The slowest tasks come first.
Status PrintUnbound(const Network& network, const Target& target) {
  struct Row {
    const NetworkTask* task;
    double seconds;
  };
  std::vector<Row> rows;
  double all = 0, unbound = 0;
  for (const NetworkTask& task : network.tasks) {
    const PredictedTime time = TRY(PredictDefault(MakeTuneTask(network, task), target));
    all += time.seconds * task.weight;
    unbound += time.unbound_seconds * task.weight;
    if (time.unbound_seconds > 0) rows.push_back({&task, time.unbound_seconds * task.weight});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.seconds > b.seconds; });
  std::printf("\n%s with loops that no rule binds to threads (bind_rest), %.1f %% of the predicted %.4g ms\n",
              Counted(static_cast<int64_t>(rows.size()), "task").c_str(), all > 0 ? 100 * unbound / all : 0, all * 1e3);
  for (const Row& row : rows) {
    std::printf("%-8s %6d %8.1f %%  %s\n", ShortTaskId(row.task->hash).c_str(), row.task->weight,
                100 * row.seconds / all, row.task->label.c_str());
  }
  return {};
}

}  // namespace

Result<std::vector<TuneTask>> SelectTasks(const std::vector<TuneTask>& tasks, const std::string& patterns) {
  if (patterns.empty()) return tasks;
  std::vector<bool> selected(tasks.size(), false);
  for (const std::string& pattern : SplitPatterns(patterns)) TRY(Select(tasks, pattern, selected));
  std::vector<TuneTask> some;
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (selected[i]) some.push_back(tasks[i]);
  }
  return some;
}

Status PrintTasks(const Network& network, const Target& target, RecordStore* store) {
  const bool json = Console::Get().json();
  const std::string where = target.Text();
  if (!json) std::printf("%-8s %6s %9s %7s %9s  %s\n", "task", "weight", "GFLOP", "% work", "best ms", "label");
  int tuned = 0;
  for (const NetworkTask& task : network.tasks) {
    std::optional<Record> best;
    if (store) best = TRY(store->Best(task.hash.Hex(), where));
    tuned += best.has_value();
    const double share = network.flops > 0 ? task.flops * task.weight / network.flops : 0;
    if (json) {
      Json line;
      line["event"] = "task";
      line["task"] = task.label;
      line["hash"] = task.hash.Hex();
      line["weight"] = task.weight;
      line["flops"] = task.flops;
      line["share"] = share;
      line["best_ms"] = best ? Json(best->cost * 1e3) : Json();
      std::printf("%s\n", line.Dump().c_str());
      continue;
    }
    char ms[32] = "-";
    if (best) std::snprintf(ms, sizeof ms, "%.4f", best->cost * 1e3);
    std::printf("%-8s %6d %9.5f %7.1f %9s  %s\n", ShortTaskId(task.hash).c_str(), task.weight, task.flops / 1e9,
                100 * share, ms, task.label.c_str());
  }
  if (json) return {};
  std::printf(
      "\n%s, %d with a schedule in the database for this target. weight: calls per run; %% work: share of the "
      "network's %.4g GFLOP\n",
      Counted(static_cast<int64_t>(network.tasks.size()), "task").c_str(), tuned, network.flops / 1e9);
  return target.IsGpu() ? PrintUnbound(network, target) : Status();
}

}  // namespace autotune::tools
