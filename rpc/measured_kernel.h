// MeasuredKernel: a kernel of an artifact on the device that a runner offers. It owns its outputs, and can be called,
// checked and timed. Not thread-safe. At most one may exist per device and per CopyArena at a time.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "rpc/load_ahead.h"
#include "runtime/artifact.h"
#include "runtime/compare.h"
#include "runtime/device.h"
#include "runtime/kernel_context.h"
#include "runtime/time_evaluator.h"

namespace autotune::rpc {

class MeasuredKernel {
 public:
  virtual ~MeasuredKernel() = default;

  // Replaces the inputs; constants stay. `inputs` has one tensor per parameter, as in OnCpu, and must outlive the
  // calls.
  virtual Status SetInputs(std::span<const Tensor> inputs) = 0;
  // Runs the kernel once and copies the outputs to the host.
  virtual Status Call() = 0;
  // Overwrites the outputs with a pattern that no right kernel produces.
  virtual Status Refill() = 0;
  // Calls the kernel many times and copies the outputs to the host.
  virtual Result<Timing> Time(const KernelTimeOptions& options) = 0;

  // The state of the device in the last Time; empty for the CPU.
  const DeviceState& state() const { return state_; }

  // The outputs of the last call, on the host, in the order of the parameters.
  const std::vector<GuardedTensor>& outputs() const { return outputs_; }

 protected:
  // Makes the outputs.
  Status Allocate(const KernelMetadata& metadata);
  std::vector<GuardedTensor> outputs_;
  DeviceState state_;
};

// Makes a kernel on the CPU and prepares its constants. `inputs` has one tensor per parameter, undefined for outputs.
// All arguments must outlive the result.
Result<std::unique_ptr<MeasuredKernel>> OnCpu(const Kernel& kernel, std::span<const Tensor> inputs,
                                              KernelContext& context, CopyArena& arena);
// Makes a kernel on a device other than the CPU and copies the inputs to it. Makes the artifact's module if there is
// none. Calls of Time rotate among copies of the
// weights as KernelTimeOptions::cold_bytes says, for the L2 cache of the device in place of the last-level cache. If
// the device tells no size of its cache or has no memory for copies, there is one copy.
Result<std::unique_ptr<MeasuredKernel>> OnDevice(LoadedArtifact loaded, const Kernel& kernel,
                                                 std::span<const Tensor> inputs, const DevicePtr& device);

}  // namespace autotune::rpc
