// The message with which a runner announces itself.
#pragma once
#include "rpc/message.h"
#include "runtime/device.h"

namespace autotune::rpc {

// `device`: the device that the runner offers beside the CPU, or null.
RunnerHello HelloOf(const DevicePtr& device);

}  // namespace autotune::rpc
