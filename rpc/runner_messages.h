// The messages between a device server and its runner, over a socket pair (rpc/channel.h). Plain values.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "rpc/device_info.h"
#include "rpc/limits.h"
#include "rpc/measure.h"
#include "support/fields.h"

namespace autotune {
namespace rpc {
// The phase that a runner begins. With artifacts ahead (RunnerAhead), two more follow kRun: the runner waits until they
// are loaded, and then measures times.
enum class RunnerPhase { kLoad, kReference, kRun, kAhead, kTime };
}  // namespace rpc
AUTOTUNE_ENUM(rpc::RunnerPhase, "load", "reference", "run", "ahead", "time")
}  // namespace autotune

namespace autotune::rpc {

struct RunnerHello {
  static constexpr std::string_view kKind = "runner_hello";
  int64_t pid = 0;
  std::string device;  // Device::Identity of the device that kernels run on; empty: the host's processor
  GpuDescription gpu;  // since 2.6: of this device
  AUTOTUNE_FIELDS(pid, device, gpu)
  AUTOTUNE_LIMITS({"device", kNameBytes})
};
// Blobs: the artifact, the reference artifact, and the reference's outputs if they are known. Only the artifact is sent
// if the candidate is not checked or if the runner already has the reference with this ReferenceKey.
struct RunnerRequest {
  static constexpr std::string_view kKind = "runner_request";
  int64_t run = 0;
  MeasureTask task;
  Candidate candidate;
  AUTOTUNE_FIELDS(run, task, candidate)
};
// Before a RunnerRequest. Blobs: artifacts of later candidates, which the runner may load beside what this request does
// before it measures times. There is no answer.
struct RunnerAhead {
  static constexpr std::string_view kKind = "runner_ahead";
  int64_t run = 0;
  AUTOTUNE_FIELDS(run)
};
struct RunnerProbe {  // since 2.1: asks to run a small kernel on the device; the answer is a RunnerResult
  static constexpr std::string_view kKind = "runner_probe";
  int64_t run = 0;
  bool calibrate = false;  // since 2.3: instead, time the kernels of rpc/calibration.h
  AUTOTUNE_FIELDS(run, calibrate)
};
struct RunnerCall {  // since 2.6; blob: that of a Call. The answer is a RunnerResult with the blob of the CallReply.
  static constexpr std::string_view kKind = "runner_call";
  int64_t run = 0;
  AUTOTUNE_FIELDS(run)
};
struct RunnerProgress {
  static constexpr std::string_view kKind = "runner_progress";
  int64_t run = 0;
  RunnerPhase phase = RunnerPhase::kLoad;
  AUTOTUNE_FIELDS(run, phase)
};
struct RunnerReference {  // blobs: the reference's outputs, which the server keeps for later runners
  static constexpr std::string_view kKind = "runner_reference";
  int64_t run = 0;
  AUTOTUNE_FIELDS(run)
};
struct RunnerResult {
  static constexpr std::string_view kKind = "runner_result";
  int64_t run = 0;
  TrialResult result;
  bool last = false;  // true: the runner's device has failed, so the runner takes no further request
  AUTOTUNE_FIELDS(run, result, last)
};

}  // namespace autotune::rpc
