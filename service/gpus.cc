#include "service/gpus.h"

#include <algorithm>
#include <cstdio>

#include "runtime/cuda/device.h"
#include "runtime/opencl/device.h"
#include "support/error_parts.h"
#include "support/printf_text.h"
#include "support/shell.h"
#include "target/cuda_arch.h"
#include "target/target.h"

namespace autotune {
namespace {

// Returns the text for --target. A kind alone takes its limits from this machine's first device. With an architecture,
// the target needs no device.
std::string TargetOf(const std::string& kind, const DeviceLimits& limits) {
  return limits.architecture.empty() ? kind : kind + " -arch=" + limits.architecture;
}

void AddDevices(DLDeviceType type, const Result<std::vector<DeviceEntry>>& devices, Gpus& gpus) {
  if (!devices.ok()) return gpus.missing.push_back(SentenceOf(devices.error()));
  const std::string kind = DeviceTypeName(type);
  for (int i = 0; i < static_cast<int>(devices->size()); ++i) {
    Result<DevicePtr> device = OpenDevice({type, i});
    if (!device.ok()) {
      gpus.missing.push_back(SentenceOf(device.error()));
      continue;
    }
    const DeviceLimits limits = (*device)->limits();
    Gpu gpu{kind + ":" + std::to_string(i),
            (*devices)[static_cast<size_t>(i)].name,
            (*devices)[static_cast<size_t>(i)].uuid,
            limits.architecture,
            "",
            "",
            limits.memory_bytes,
            limits.units};
    const Result<Target> target = Target::Parse(StatedTarget(kind, limits));
    if (target.ok()) {
      gpu.target = TargetOf(kind, limits);
    } else {
      gpu.refusal = SentenceOf(target.error());
    }
    gpus.found.push_back(std::move(gpu));
  }
}

}  // namespace

Gpus FindGpus() {
  Gpus gpus;
  AddDevices(kDLCUDA, CudaDevices(), gpus);
  AddDevices(kDLOpenCL, OpenClDevices(), gpus);
  return gpus;
}

std::string StatedTarget(const std::string& kind, const DeviceLimits& limits) {
  std::string text = kind + " -num-cores=" + std::to_string(limits.units);
  int64_t threads = limits.threads_per_block, shared = limits.shared_bytes;
  if (!limits.architecture.empty()) {
    text += " -arch=" + limits.architecture;
    const CudaArch* arch = FindCudaArch(limits.architecture);
    if (arch && arch->name == limits.architecture) {
      threads = std::min(threads, arch->max_threads);
      shared = std::min(shared, arch->shared_bytes);
    }
  }
  return text + " -max-threads=" + std::to_string(threads) + " -shared=" + std::to_string(shared);
}

std::string GpuText(const Gpu& gpu) {
  return gpu.device + ": " + gpu.name + ", " + (gpu.architecture.empty() ? "" : gpu.architecture + ", ") +
         Format("%ld units, %.1f GB", static_cast<long>(gpu.units), static_cast<double>(gpu.memory_bytes) / 1e9) +
         (gpu.uuid.empty() ? "" : ", " + gpu.uuid);
}

std::string GpuTargetText(const Gpu& gpu) {
  return gpu.refusal.empty() ? "--target " + ShellWord(gpu.target) : "no code for this GPU: " + gpu.refusal;
}

}  // namespace autotune
