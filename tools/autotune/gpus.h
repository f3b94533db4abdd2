// The GPUs of this machine, for `autotune devices` and `autotune doctor`.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "support/fields.h"

namespace autotune::tools {

struct Gpu {
  std::string device;        // value for --device: "cuda:0"
  std::string name;          // the driver's name of the device
  std::string architecture;  // "sm_90"; empty for OpenCL
  std::string target;        // value for --target
  int64_t memory_bytes = 0;
  int64_t units = 0;  // number of multiprocessors (CUDA) or compute units (OpenCL)
  AUTOTUNE_FIELDS(device, name, architecture, target, memory_bytes, units)
};

struct Gpus {
  std::vector<Gpu> found;            // CUDA devices, then OpenCL devices; a GPU may be both
  std::vector<std::string> missing;  // reasons, one line for each kind or device that cannot be used
};
Gpus FindGpus();

// Describes a GPU: "cuda:0: NVIDIA H100, sm_90, 132 units, 85.0 GB".
std::string GpuText(const Gpu& gpu);

}  // namespace autotune::tools
