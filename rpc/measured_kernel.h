// MeasuredKernel: a kernel of an artifact on the device that a runner offers, with outputs of its own. It can be
// called, checked and timed. One thread at a time; at most one exists per device and CopyArena.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "runtime/artifact.h"
#include "runtime/compare.h"
#include "runtime/device.h"
#include "runtime/kernel_context.h"
#include "runtime/time_evaluator.h"

namespace autotune::rpc {

class MeasuredKernel {
 public:
  virtual ~MeasuredKernel() = default;

  // Runs the kernel once. The outputs are on the host then.
  virtual Status Call() = 0;
  // Fills the outputs with bytes that no kernel leaves.
  virtual Status Refill() = 0;
  // Calls it many times. The outputs are on the host then.
  virtual Result<Timing> Time(const KernelTimeOptions& options) = 0;

  // On the host, as the last call left them; in the parameters' order.
  const std::vector<GuardedTensor>& outputs() const { return outputs_; }

 protected:
  // Makes the outputs.
  Status Allocate(const KernelMetadata& metadata);
  std::vector<GuardedTensor> outputs_;
};

// `inputs`: by parameter; undefined at outputs. The constants are prepared. All arguments outlive the kernel.
Result<std::unique_ptr<MeasuredKernel>> OnCpu(const Kernel& kernel, std::span<const Tensor> inputs,
                                              KernelContext& context, CopyArena& arena);
// Makes a kernel on a device other than the CPU and copies the inputs there. The weights stay in the device's caches,
// since KernelTimeOptions::cold_bytes is ignored.
Result<std::unique_ptr<MeasuredKernel>> OnDevice(std::shared_ptr<const Artifact> artifact, const Kernel& kernel,
                                                 std::span<const Tensor> inputs, const DevicePtr& device);

}  // namespace autotune::rpc
