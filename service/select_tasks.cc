#include "service/select_tasks.h"

#include <fnmatch.h>

#include <algorithm>

#include "support/hint.h"
#include "support/task_id.h"

namespace autotune {
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
Status MarkTasks(const std::vector<TuneTask>& tasks, const Leaders& leaders, const std::string& pattern,
                 std::vector<bool>& selected) {
  bool any = false;
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (pattern.empty() || !LabelMatches(tasks[i].label, pattern)) continue;
    selected[i] = any = true;
  }
  if (any) return {};
  if (!IsTaskIdPrefix(pattern))
    return WithHint(Err("--tasks: no task's label contains '", pattern, "'"), "--tasks list shows the labels");
  std::vector<std::string> hashes;
  for (const TuneTask& task : tasks) hashes.push_back(task.hash.Hex());
  for (const auto& [follower, leader] : leaders) hashes.push_back(follower);
  Result<std::string> hash = FindTask(hashes, pattern);
  if (!hash.ok()) return WithHint(Prefixed("--tasks: ", hash.error()), "--tasks list shows the tasks");
  const auto follows = leaders.find(*hash);
  const std::string& named = follows == leaders.end() ? *hash : follows->second;
  for (size_t i = 0; i < tasks.size(); ++i) selected[i] = selected[i] || hashes[i] == named;
  return {};
}

}  // namespace

Leaders LeadersOf(const Network& network) {
  Leaders leaders;
  const std::vector<NetworkTask> tuned = TasksToTune(network);
  for (const NetworkTask& task : network.tasks) {
    const auto leader = std::ranges::find(tuned, task.family, &NetworkTask::family);
    if (leader->hash != task.hash) leaders[task.hash.Hex()] = leader->hash.Hex();
  }
  return leaders;
}

Result<std::vector<TuneTask>> SelectTasks(const std::vector<TuneTask>& tasks, const std::string& patterns,
                                          const Leaders& leaders) {
  if (patterns.empty()) return tasks;
  std::vector<bool> selected(tasks.size(), false);
  for (const std::string& pattern : SplitPatterns(patterns)) TRY(MarkTasks(tasks, leaders, pattern, selected));
  std::vector<TuneTask> some;
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (selected[i]) some.push_back(tasks[i]);
  }
  return some;
}

}  // namespace autotune
