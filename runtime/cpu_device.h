// CpuDevice: the host's own processor as a Device. Its addresses are addresses of the host, and its commands have run
// when they return. Its code is in libraries (runtime/module.h), so it loads no images. It holds the KernelContext on
// which kernels run: one kernel at a time per device.
#pragma once
#include "runtime/device.h"
#include "runtime/kernel_context.h"

namespace autotune {

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(std::shared_ptr<KernelContext> context) : context_(std::move(context)) {}
  explicit CpuDevice(int num_threads) : CpuDevice(std::make_shared<KernelContext>(num_threads)) {}  // 0: one per CPU

  KernelContext& context() { return *context_; }

  DLDevice dl() const override { return {kDLCPU, 0}; }
  DeviceLimits limits() const override;
  Result<std::shared_ptr<void>> Allocate(int64_t bytes) override;
  Status Zero(void* to, int64_t bytes) override;
  Status CopyIn(void* to, const void* host, int64_t bytes) override;
  Status CopyOut(void* host, const void* from, int64_t bytes) override;
  Status CopyWithin(void* to, const void* from, int64_t bytes) override;
  Result<std::shared_ptr<const DeviceImage>> LoadImage(std::string_view format, std::string_view bytes) override;
  Status Launch(const void* entry, const LaunchGeometry& geometry, std::span<void* const> args) override;
  Status Synchronize() override { return {}; }
  Status LastError() const override { return {}; }

 private:
  std::shared_ptr<KernelContext> context_;
};

// Returns the CPU with `num_threads` threads (0: one per CPU), then the other devices in `devices`. Returns an error
// for a value that is no device and for a device that cannot be opened.
Result<std::vector<DevicePtr>> OpenDevices(std::span<const Value> devices, int num_threads);

}  // namespace autotune
