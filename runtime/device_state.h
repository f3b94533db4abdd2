// DeviceState: what is known about the clocks of a device during a measurement. A plain value.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "support/fields.h"

namespace autotune {

// 0 or empty: unknown.
struct DeviceState {
  int64_t clock_mhz = 0, memory_clock_mhz = 0;
  std::vector<std::string> throttled;  // reasons why the clocks are lower than they could be, such as "power cap"
  double reference_seconds = 0;        // time of the reference kernel (Device::Settle) after the measurement
  bool steady = true;                  // false: the reference kernel's times before and after the measurement differ
  AUTOTUNE_FIELDS(clock_mhz, memory_clock_mhz, throttled, reference_seconds, steady)

  bool IsKnown() const { return clock_mhz > 0 || reference_seconds > 0; }
};

}  // namespace autotune
