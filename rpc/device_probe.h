// The probe of a device that was quarantined: a small kernel whose result is known. Thread-safe.
#pragma once
#include "runtime/device.h"
#include "support/result.h"

namespace autotune::rpc {

// Copies a pattern through the device's memory and compares it, and runs a kernel: doubled numbers with OpenCL, the
// reference kernel of the clock with CUDA. `device` null: the CPU, which must give this thread 20 ms of its time within
// 200 ms.
Status ProbeDevice(Device* device);

}  // namespace autotune::rpc
