// CUDA devices (runtime/device.h). Memory is the driver's, from its pool where it has one; commands go to one stream of
// the device's primary context, which PyTorch and others share. Images are PTX ("ptx"), which the driver compiles, and
// machine code ("cubin"). An entry's parameters are addresses of global memory. The context takes memory of the GPU and
// a part of a second, so it is made with the first command that needs it, not when the device is opened.
// Refusals (no memory, a bad image or launch) are not final; all other errors are, for the whole process.
#pragma once
#include <string>
#include <vector>

#include "runtime/device.h"

namespace autotune {

// The names of this machine's CUDA devices, by number. An error: there is no driver, or it finds no device.
Result<std::vector<std::string>> CudaDeviceNames();

// Opens a device by its number. Errors: those of CudaDeviceNames; no such number.
Result<DevicePtr> OpenCudaDevice(int id);

}  // namespace autotune
