// How a runner opens its device and enters its sandbox, in the order that the device's driver needs.
#pragma once
#include <vector>

#include "rpc/runner.h"
#include "rpc/sandbox.h"
#include "runtime/device.h"

namespace autotune::rpc {

struct PreparedRunner {
  DevicePtr device;  // null: the CPU
  std::vector<SandboxLayer> layers;
};

// Opens the device and enters the sandbox. The sandbox of a CUDA device follows in ConfinedWithDevice.
Result<PreparedRunner> PrepareRunner(const RunnerOptions& options);

// Makes the context of a device other than the CPU. With CUDA, then enters the sandbox: by then the driver and the
// library that tells clocks have started, and they need no further processes.
Result<std::vector<SandboxLayer>> ConfinedWithDevice(const RunnerOptions& options, Device& device);

}  // namespace autotune::rpc
