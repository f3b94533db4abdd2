// For tests: lets virtual time pass for a state machine of the farm.
#pragma once
#include <algorithm>
#include <cstdint>

#include "rpc/timers.h"

namespace autotune::test {

// Calls the machine at the times that it names, and at no others, until `ms` have passed. `take` gets its outputs.
template <class Machine, class Take>
void PassTime(Machine& machine, int64_t& now, int64_t ms, Take take) {
  const int64_t end = now + ms;
  while (machine.NextWake() <= end) {
    now = std::max(now, machine.NextWake());
    take(machine.Wake(now));
  }
  now = end;
}

}  // namespace autotune::test
