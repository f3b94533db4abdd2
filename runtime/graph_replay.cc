// Command graphs of a GraphExecutor. Consecutive steps on one device are recorded once; later runs give the recording
// to the device as one command. A launch of its own costs the host a few microseconds, which is more than the run time
// of many kernels on a GPU.
#include "runtime/graph_executor.h"

namespace autotune {

Status GraphExecutor::RunSteps(size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) TRY(RunStep(steps_[i]));
  return {};
}

// Records each maximal sequence of two or more steps on one device other than the host. All steps must have run before:
// code cannot be loaded during a capture, and errors of single steps must have been reported.
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
    if (device->IsHost() || end - begin < 2) continue;
    std::shared_ptr<DeviceGraph> graph = TRY(device->Capture([&] { return RunSteps(begin, end); }));
    if (graph) replays_.push_back({begin, end, std::move(graph)});
  }
  return {};
}

void GraphExecutor::ForgetReplays() {
  replays_.clear();
  runs_ = 0;
}

}  // namespace autotune
