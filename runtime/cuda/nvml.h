// The functions of NVIDIA's management library (NVML) that tell clocks. The library libnvidia-ml.so.1, or the library
// that the environment variable AUTOTUNE_LIBNVML names, comes with the driver. It is loaded at the first use; without
// it, nothing is known. Thread-safe. Internal to runtime/cuda.
#pragma once
#include <string>

#include "runtime/device.h"

namespace autotune::cuda {

// Returns the clocks of the GPU with this UUID and the reasons that lower them now.
DeviceState ClocksOf(const std::string& uuid);

}  // namespace autotune::cuda
