#include "rpc/runner_hello.h"

#include <unistd.h>

namespace autotune::rpc {

RunnerHello HelloOf(const DevicePtr& device) {
  RunnerHello hello{.pid = getpid()};
  if (!device) return hello;
  const DeviceLimits limits = device->limits();
  hello.device = device->Identity();
  hello.gpu = {DeviceTypeName(device->dl().device_type),
               limits.architecture,
               limits.units,
               limits.threads_per_block,
               limits.shared_bytes,
               limits.memory_bytes,
               limits.l2_bytes};
  return hello;
}

}  // namespace autotune::rpc
