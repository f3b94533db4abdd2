#include "runtime/network_variants.h"

#include <algorithm>

namespace autotune {
namespace {

constexpr double kVisitSeconds = 2e-3;  // planned duration of a visit
constexpr int kMaxRunsPerVisit = 8;

// Makes the nodes of a task run one of its kernels.
Status UseKernel(GraphExecutor& executor, const TaskVariants& task, int64_t variant) {
  if (variant < 0 || variant >= static_cast<int64_t>(task.kernels.size()))
    return Err("a task with ", task.kernels.size(), " kernels has no kernel ", variant);
  for (int64_t node : task.nodes) {
    if (node < 0 || node >= static_cast<int64_t>(executor.graph().nodes.size()))
      return Err("the graph has no node ", node);
    TRY(executor.ReplaceKernel(node, task.kernels[static_cast<size_t>(variant)]));
  }
  return {};
}

}  // namespace

Result<std::vector<double>> TimeVariants(GraphExecutor& executor, const std::vector<TaskVariants>& tasks,
                                         std::span<const int64_t> variants, bool serial) {
  if (variants.size() != tasks.size()) return Err(tasks.size(), " tasks need as many kernels, not ", variants.size());
  executor.SetSerial(serial);
  for (size_t task = 0; task < tasks.size(); ++task) TRY(UseKernel(executor, tasks[task], variants[task]));
  // The first sample begins with a run of the whole network, which brings this combination's code and data into the
  // caches before the kernels are timed.
  ProfileSamples samples;
  TRY(executor.AddProfileSamples(1, samples));
  const double runs = std::clamp(kVisitSeconds / std::max(samples.network[0], 1e-9), 1.0, 0.0 + kMaxRunsPerVisit);
  TRY(executor.AddProfileSamples(static_cast<int>(runs) - 1, samples));
  std::vector<double> of_node(executor.graph().nodes.size(), 0.0);
  for (const NodeTime& time : TRY(executor.NodeTimes(samples))) of_node[static_cast<size_t>(time.node)] += time.seconds;
  std::vector<double> seconds;
  for (const TaskVariants& task : tasks) {
    seconds.push_back(0);
    for (int64_t node : task.nodes) seconds.back() += of_node[static_cast<size_t>(node)];
  }
  return seconds;
}

}  // namespace autotune
