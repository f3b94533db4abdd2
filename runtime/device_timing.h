// Times calls of a kernel, or of a whole network, on a device. Where the device has graphs and a clock of its own, a
// repeat is a sequence of graphs of calls between two events, so the times contain neither launches by the host nor the
// host's clock: a kernel of several launches is charged what they cost in a graph. Elsewhere the host starts each call,
// and its clock tells when all have ended. One measurement at a time per device.
#pragma once
#include <cstdint>
#include <functional>

#include "runtime/device.h"
#include "runtime/time_evaluator.h"

namespace autotune {

// Gives the device the commands of one call. Calls `copy` 0 to rotation - 1 differ in the copies of weights that they
// read.
using DeviceCall = std::function<Status(int64_t copy)>;

struct DeviceTiming {
  Timing timing;
  DeviceState state;  // of the device after the calls
};

// Waits until the device's clocks are steady, then times calls as EvaluateTime does. Successive calls take successive
// copies. If the clocks have changed meanwhile, measures again, twice at most; DeviceState::steady says whether they
// were steady in the measurement that is returned. All code must be loaded: a call has run before.
Result<DeviceTiming> TimeOnDevice(Device& device, const TimeOptions& options, const DeviceCall& call,
                                  int64_t rotation = 1);

}  // namespace autotune
