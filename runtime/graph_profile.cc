// The profile of a GraphExecutor: the time of each step, sampled alternately with runs of the whole network.
#include <algorithm>
#include <chrono>

#include "runtime/graph_executor.h"
#include "support/statistics.h"

namespace autotune {

Status GraphExecutor::AddProfileSamples(int runs, ProfileSamples& samples) {
  using Clock = std::chrono::steady_clock;
  auto seconds = [](Clock::duration span) { return std::chrono::duration<double>(span).count(); };
  samples.kernels.resize(steps_.size());
  auto time_network = [&]() -> Status {
    Clock::time_point begin = Clock::now();
    TRY(Run());
    samples.network.push_back(seconds(Clock::now() - begin));
    return {};
  };
  auto time_kernels = [&]() -> Status {
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Step& step = steps_[i];
      if (!step.to->IsHost() && (step.kernel || step.from == step.to)) {
        samples.kernels[i].push_back(TRY(step.to->Time([&] { return RunStep(step); })));
        continue;
      }
      const Clock::time_point begin = Clock::now();
      TRY(RunStep(step));
      samples.kernels[i].push_back(seconds(Clock::now() - begin));
    }
    return {};
  };
  for (int run = 0; run < runs; ++run) {
    const bool network_first = samples.network.size() % 2 == 0;
    if (network_first) TRY(time_network());
    TRY(time_kernels());
    if (!network_first) TRY(time_network());
  }
  return {};
}

Result<std::vector<NodeTime>> GraphExecutor::NodeTimes(const ProfileSamples& samples) const {
  CHECK(samples.kernels.size() == steps_.size());
  std::vector<NodeTime> times;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const std::vector<double>& seconds = samples.kernels[i];
    const GraphNode& node = graph_.nodes[steps_[i].node];
    NodeTime time{.node = steps_[i].node,
                  .name = node.name,
                  .func_name = node.func_name,
                  .seconds = Median(seconds),
                  .least = *std::min_element(seconds.begin(), seconds.end())};
    if (const BoundKernel* kernel = steps_[i].kernel) {
      time.flops = kernel->metadata().flops;
      for (const TensorSpec& spec : kernel->metadata().params) {
        time.bytes += static_cast<double>(TRY(ShapeBytes(spec.shape, TRY(DataTypeFromText(spec.dtype)))));
      }
    } else {
      time.bytes = 2 * static_cast<double>(steps_[i].copy_bytes);
    }
    times.push_back(std::move(time));
  }
  return times;
}

Result<std::vector<NodeTime>> GraphExecutor::Profile(int runs) {
  if (runs < 1) return Err("a profile takes at least one run");
  ProfileSamples samples;
  TRY(AddProfileSamples(runs, samples));
  return NodeTimes(samples);
}

}  // namespace autotune
