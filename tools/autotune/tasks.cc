#include "tools/autotune/tasks.h"

#include <algorithm>
#include <functional>

#include "support/json.h"
#include "support/task_id.h"
#include "support/terminal.h"
#include "tools/autotune/console.h"
#include "tools/autotune/text.h"
#include "tuner/defaults.h"

namespace autotune::tools {
namespace {

// The predicted times of the default schedules of a network's tasks on a GPU.
struct Prediction {
  std::vector<PredictedTime> tasks;  // of one call each; empty for a CPU
  double seconds = 0;                // of all calls

  // Returns the share of the network's predicted time that the loops of a task take that no rule schedules.
  double UnboundShare(const NetworkTask& task, size_t index) const {
    return seconds > 0 ? tasks[index].unbound_seconds * task.weight / seconds : 0;
  }
};

Result<Prediction> Predict(const Network& network, const std::vector<NetworkTask>& tasks, const Target& target) {
  Prediction prediction;
  if (!target.IsGpu()) return prediction;
  for (const NetworkTask& task : tasks) {
    prediction.tasks.push_back(TRY(PredictDefault(MakeTuneTask(network, task), target)));
    prediction.seconds += prediction.tasks.back().seconds * task.weight;
  }
  return prediction;
}

// Returns the list of the tasks with kernels that no rule schedules, and their share of the predicted time of all
// calls. The slowest tasks come first.
std::string UnboundText(const std::vector<NetworkTask>& tasks, const Prediction& prediction, int width) {
  std::vector<size_t> rows;
  double share = 0;
  for (size_t i = 0; i < tasks.size(); ++i) {
    share += prediction.UnboundShare(tasks[i], i);
    if (prediction.tasks[i].unbound_seconds > 0) rows.push_back(i);
  }
  std::ranges::stable_sort(rows, std::greater(), [&](size_t i) { return prediction.UnboundShare(tasks[i], i); });
  std::string text = "\n" + CountText(static_cast<int64_t>(rows.size()), "task") +
                     Format(" with loops that no rule binds to threads (bind_rest), %.1f %% of the predicted %.4g ms\n",
                            100 * share, prediction.seconds * 1e3);
  for (const size_t i : rows) {
    const NetworkTask& task = tasks[i];
    text += Row(ShortTaskId(task.hash) + Format(" %6d %8.1f %%  ", task.weight, 100 * prediction.UnboundShare(task, i)),
                task.label, width);
  }
  return text;
}

}  // namespace

Status PrintTasks(const Network& network, const Target& target, RecordStore* store, int width) {
  Console& console = Console::Get();
  const std::string where = target.Text();
  std::string text = Row(Format("%-8s %6s %10s %7s %10s  ", "task", "calls", "MFLOP", "% work", "best time"),
                         "operators and shapes", width);
  const std::vector<NetworkTask> tasks = TasksToTune(network);
  const Prediction prediction = TRY(Predict(network, tasks, target));
  int tuned = 0;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const NetworkTask& task = tasks[i];
    std::optional<Record> best;
    if (store) best = TRY(store->Best(task.hash.Hex(), where));
    tuned += best.has_value();
    const double share = network.flops > 0 ? task.flops * task.weight / network.flops : 0;
    if (console.json()) {
      Json line;
      line["event"] = "task";
      line["task"] = task.label;
      line["hash"] = task.hash.Hex();
      line["weight"] = task.weight;
      line["flops"] = task.flops;
      line["share"] = share;
      line["best_ms"] = best ? Json(best->cost * 1e3) : Json();
      if (target.IsGpu()) {
        line["predicted_ms"] = prediction.tasks[i].seconds * 1e3;
        line["bind_rest_ms"] = prediction.tasks[i].unbound_seconds * 1e3;
        line["bind_rest_share"] = prediction.UnboundShare(task, i);
      }
      console.Result(line);
      continue;
    }
    const std::string time = best ? TimeText(best->cost) : "-";
    text += Row(ShortTaskId(task.hash) +
                    Format(" %6d %10.3f %7.1f %10s  ", task.weight, task.flops / 1e6, 100 * share, time.c_str()),
                task.label, width);
  }
  if (console.json()) return {};
  console.Result(text + "\n" +
                 WrapWords(CountText(static_cast<int64_t>(tasks.size()), "task") +
                               Format(", %d with a schedule in the database for this target. calls: in one run of the "
                                      "network; %% work: share of the network's %.4g MFLOP",
                                      tuned, network.flops / 1e6),
                           width) +
                 "\n");
  if (target.IsGpu()) console.Result(UnboundText(tasks, prediction, width));
  return {};
}

}  // namespace autotune::tools
