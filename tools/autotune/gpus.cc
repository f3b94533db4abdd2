#include "tools/autotune/gpus.h"

#include <cstdio>

#include "runtime/cuda/device.h"
#include "runtime/opencl/device.h"

namespace autotune::tools {
namespace {

// Returns the text for --target. A kind alone takes its limits from this machine's first device. With an architecture,
// the target needs no device.
std::string TargetOf(const std::string& kind, const DeviceLimits& limits) {
  return limits.architecture.empty() ? kind : kind + " -arch=" + limits.architecture;
}

void AddDevices(DLDeviceType type, const Result<std::vector<std::string>>& names, Gpus& gpus) {
  if (!names.ok()) return gpus.missing.push_back(names.error().Text());
  const std::string kind = DeviceTypeName(type);
  for (int i = 0; i < static_cast<int>(names->size()); ++i) {
    Result<DevicePtr> device = OpenDevice({type, i});
    if (!device.ok()) {
      gpus.missing.push_back(device.error().Text());
      continue;
    }
    const DeviceLimits limits = (*device)->limits();
    gpus.found.push_back({kind + ":" + std::to_string(i), (*names)[static_cast<size_t>(i)], limits.architecture,
                          TargetOf(kind, limits), limits.memory_bytes, limits.units});
  }
}

}  // namespace

Gpus FindGpus() {
  Gpus gpus;
  AddDevices(kDLCUDA, CudaDeviceNames(), gpus);
  AddDevices(kDLOpenCL, OpenClDeviceNames(), gpus);
  return gpus;
}

std::string GpuText(const Gpu& gpu) {
  char facts[64];
  std::snprintf(facts, sizeof facts, "%ld units, %.1f GB", static_cast<long>(gpu.units),
                static_cast<double>(gpu.memory_bytes) / 1e9);
  return gpu.device + ": " + gpu.name + ", " + (gpu.architecture.empty() ? "" : gpu.architecture + ", ") + facts;
}

}  // namespace autotune::tools
