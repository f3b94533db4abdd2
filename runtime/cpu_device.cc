#include "runtime/cpu_device.h"

#include <unistd.h>

#include <cstring>

namespace autotune {
namespace {

Status CopyHost(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  return {};
}

}  // namespace

DeviceLimits CpuDevice::limits() const {
  return {.memory_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE)};
}

Result<std::shared_ptr<void>> CpuDevice::Allocate(int64_t bytes) {
  std::shared_ptr<void> memory = AllocateAligned(bytes);
  if (!memory) return OutOfMemory("cannot allocate ", bytes, " bytes");
  return memory;
}

Status CpuDevice::Zero(void* to, int64_t bytes) {
  if (bytes > 0) std::memset(to, 0, bytes);
  return {};
}

Status CpuDevice::CopyIn(void* to, const void* host, int64_t bytes) { return CopyHost(to, host, bytes); }
Status CpuDevice::CopyOut(void* host, const void* from, int64_t bytes) { return CopyHost(host, from, bytes); }
Status CpuDevice::CopyWithin(void* to, const void* from, int64_t bytes) { return CopyHost(to, from, bytes); }

Result<std::shared_ptr<const DeviceImage>> CpuDevice::LoadImage(std::string_view format, std::string_view) {
  return Err("the CPU runs libraries; it loads no image of format '", format, "'");
}

Result<std::vector<DevicePtr>> OpenDevices(std::span<const Value> devices, int num_threads) {
  std::vector<DevicePtr> opened = {std::make_shared<CpuDevice>(num_threads)};
  for (size_t i = 0; i < devices.size(); ++i) {
    auto device = TRY(detail::Argument<DLDevice>(devices, i));
    if (device.device_type == kDLCPU && device.device_id != 0)
      return Err("this machine has one CPU device, number 0; there is no ", device.device_id);
    if (device.device_type != kDLCPU) opened.push_back(TRY(OpenDevice(device)));
  }
  return opened;
}

Status CpuDevice::Launch(const void*, const LaunchGeometry&, std::span<void* const>) {
  return Err("the CPU runs libraries; it launches no images");
}

}  // namespace autotune
