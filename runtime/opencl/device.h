// OpenCL devices (runtime/device.h). Memory is coarse-grained shared virtual memory of OpenCL 2.0, since Device
// requires addresses to which offsets can be added. Commands go to one in-order queue. Images are OpenCL C ("cl"). An
// entry is a kernel whose arguments are global pointers and, if a launch has shared memory, one local pointer after
// them.
#pragma once
#include <string>
#include <vector>

#include "runtime/device.h"

namespace autotune {

// Returns this machine's OpenCL devices, by number: the GPUs of all platforms, or all devices if there is no GPU.
// Returns an error if there is no OpenCL, or if it has no device.
Result<std::vector<DeviceEntry>> OpenClDevices();

// Opens a device by its number. Errors: those of OpenClDevices; there is no device of this number; the device has
// no shared virtual memory.
Result<DevicePtr> OpenOpenClDevice(int id);

}  // namespace autotune
