// The trace of one run of a GraphExecutor: when each step and each thread of the host worked.
#include <chrono>

#include "runtime/cpu_device.h"
#include "runtime/graph_executor.h"

namespace autotune {

Result<RunTrace> GraphExecutor::TraceRun() {
  using Clock = std::chrono::steady_clock;
  CpuDevice* host = nullptr;
  for (const auto& [type, device] : devices_) {
    if (auto* cpu = dynamic_cast<CpuDevice*>(device.get())) host = cpu;
  }
  RunTrace trace;
  trace.kernels.reserve(steps_.size());
  if (host) host->context().StartRecording();
  const Clock::time_point start = Clock::now();
  auto since_start = [&](Clock::time_point time) { return std::chrono::duration<double>(time - start).count(); };
  auto run = [&]() -> Status {
    for (const Step& step : steps_) {
      const double begin = since_start(Clock::now());
      if (!step.to->IsHost() && (step.kernel || step.from == step.to)) {
        const double seconds = TRY(step.to->Time([&] { return RunStep(step); }));
        trace.kernels.push_back({begin, seconds});
      } else {
        TRY(RunStep(step));
        trace.kernels.push_back({begin, since_start(Clock::now()) - begin});
      }
    }
    return {};
  };
  const Status status = run();
  trace.seconds = since_start(Clock::now());
  if (host) {
    for (const std::vector<KernelContext::Chunk>& chunks : host->context().StopRecording()) {
      std::vector<RunTrace::Span>& spans = trace.threads.emplace_back();
      for (const KernelContext::Chunk& chunk : chunks)
        spans.push_back({since_start(chunk.begin), since_start(chunk.end) - since_start(chunk.begin)});
    }
  }
  TRY(status);
  return trace;
}

}  // namespace autotune
