// Calls a state machine at the times that it names (rpc/timers.h). Belongs to the thread of its loop.
#pragma once
#include <functional>
#include <utility>

#include "rpc/timers.h"
#include "support/clock.h"
#include "support/loop.h"

namespace autotune::rpc {

class WakeTimer {
 public:
  WakeTimer(Loop& loop, std::function<void()> wake)
      : alarm_(
            BootMillis,
            [this, &loop](int64_t delay_ms, std::function<void()> call) {
              watch_ = loop.After(delay_ms, std::move(call));
            },
            std::move(wake)) {}
  void Set(int64_t at) { alarm_.Set(at); }

 private:
  Loop::Watch watch_;
  Alarm alarm_;
};

}  // namespace autotune::rpc
