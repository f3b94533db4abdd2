// The GPUs of this machine, for `autotune devices` and `autotune doctor`.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "support/fields.h"

namespace autotune {

struct Gpu {
  std::string device;        // value for --device: "cuda:0"
  std::string name;          // the driver's name of the device
  std::string uuid;          // another value for --device; empty for OpenCL, which knows devices by name
  std::string architecture;  // "sm_90"; empty for OpenCL
  std::string target;        // value for --target; empty if there is no code for the GPU
  std::string refusal;       // why there is none; else empty
  int64_t memory_bytes = 0;
  int64_t units = 0;  // number of multiprocessors (CUDA) or compute units (OpenCL)
  AUTOTUNE_FIELDS(device, name, uuid, architecture, target, refusal, memory_bytes, units)
};

struct Gpus {
  std::vector<Gpu> found;            // CUDA devices, then OpenCL devices; a GPU may be both
  std::vector<std::string> missing;  // reasons, one line for each kind or device that cannot be used
};
Gpus FindGpus();

// Returns the text of the target of a device with these limits; `kind` is opencl or cuda. Limits beyond those of the
// device's architecture are reduced to the architecture's, so that the code runs on its other GPUs, too.
std::string StatedTarget(const std::string& kind, const DeviceLimits& limits);

// Describes a GPU: "cuda:0: NVIDIA H100, sm_90, 132 units, 85.0 GB, GPU-8a6b1c0f-…".
std::string GpuText(const Gpu& gpu);
// Returns what to write for --target ("--target 'cuda -arch=sm_90'"), or why there is no code for the GPU.
std::string GpuTargetText(const Gpu& gpu);

}  // namespace autotune
