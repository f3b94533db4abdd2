// Finds the times in which this process did not run: it was stopped, or the host was suspended. What arrived meanwhile
// is still unread, so whoever judges another party by its silence must not count this time. A value; not thread-safe.
#pragma once
#include <cstdint>

namespace autotune::rpc {

class StoppedTime {
 public:
  // Returns for how many milliseconds the process was stopped before this input of a state machine, else 0. Inputs
  // arrive at least every 100 ms while the process runs. `now`: CLOCK_BOOTTIME in milliseconds.
  int64_t Before(int64_t now) {
    constexpr int64_t kLongest = 500;  // gap between two inputs on a busy host
    const int64_t gap = last_ < 0 ? 0 : now - last_;
    last_ = now;
    return gap > kLongest ? gap : 0;
  }

 private:
  int64_t last_ = -1;
};

}  // namespace autotune::rpc
