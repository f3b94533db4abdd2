// CUDA devices (runtime/device.h). Memory comes from the driver's memory pool, if the driver has one. Commands go to
// one stream of the device's primary context, which other libraries of the process, such as PyTorch, share. Images are
// PTX (format "ptx"), which the driver compiles, or machine code ("cubin"). The parameters of an entry are addresses of
// global memory. Making the context takes GPU memory and a fraction of a second, so it is made by the first command
// that needs it. Refusals (no memory, a bad image or launch) are not final. All other errors are final for the whole
// process.
#pragma once
#include <string>
#include <vector>

#include "runtime/device.h"

namespace autotune {

// Returns this machine's CUDA devices, by number. Returns an error if there is no driver, or if it finds no device.
Result<std::vector<DeviceEntry>> CudaDevices();

// Opens a device by its number. Errors: those of CudaDevices; there is no device of this number.
Result<DevicePtr> OpenCudaDevice(int id);

}  // namespace autotune
