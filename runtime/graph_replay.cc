// Command graphs of a GraphExecutor. Consecutive steps on one device are recorded once; later runs give the recording
// to the device as one command. A launch of its own costs the host a few microseconds, which is more than the run time
// of many kernels on a GPU.
#include "runtime/graph_executor.h"

namespace autotune {

Status GraphExecutor::RunSteps(size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) TRY(RunStep(steps_[i]));
  return {};
}

// Records each maximal sequence of steps on one device other than the host, if it has two or more commands. All steps
// must have run before: code cannot be loaded during a capture, and errors of single steps must have been reported.
Status GraphExecutor::RecordReplays() {
  auto stays = [&](size_t i, const Device* device) {
    const Step& step = steps_[i];
    return step.to == device && (step.kernel || step.from == device);
  };
  for (size_t begin = 0, end = 0; begin < steps_.size(); begin = end) {
    Device* device = steps_[begin].to;
    end = begin;
    while (end < steps_.size() && stays(end, device)) ++end;
    if (end == begin) ++end;  // a copy between devices
    size_t commands = 0;
    for (size_t i = begin; i < end; ++i)
      commands += steps_[i].kernel ? steps_[i].kernel->metadata().launches.size() : 1;
    if (device->IsHost() || commands < 2) continue;
    std::shared_ptr<DeviceGraph> graph = TRY(device->Capture([&] { return RunSteps(begin, end); }));
    if (graph) replays_.push_back({begin, end, std::move(graph)});
  }
  return {};
}

Result<std::optional<DeviceTiming>> GraphExecutor::TimeDevice(const TimeOptions& options) {
  if (others_.size() != 1) return std::optional<DeviceTiming>();
  Device* device = others_[0];
  auto call = [&](int64_t) -> Status {
    for (const Step& step : steps_) {
      if (step.to == device && (step.kernel || step.from == device)) TRY(RunStep(step));
    }
    return {};
  };
  return std::optional<DeviceTiming>(TRY(TimeOnDevice(*device, options, call)));
}

void GraphExecutor::ForgetReplays() {
  replays_.clear();
  runs_ = 0;
}

}  // namespace autotune
