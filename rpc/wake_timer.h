// Calls a state machine at the times that it names (rpc/timers.h). Belongs to the thread of its loop.
#pragma once
#include <algorithm>
#include <functional>
#include <utility>

#include "rpc/timers.h"
#include "support/clock.h"
#include "support/loop.h"

namespace autotune::rpc {

class WakeTimer {
 public:
  // `wake` is called when the time has come. It should end with Set.
  WakeTimer(Loop& loop, std::function<void()> wake) : loop_(loop), wake_(std::move(wake)) {}

  // To be called after each input of the machine, with its NextWake().
  void Set(int64_t at) {
    at_ = at;
    if (at == kNever) {
      armed_ = kNever;
      watch_.reset();
    } else if (armed_ > at) {
      Arm();
    }  // else the timer fires too early, and is then set again: times mostly move to later ones
  }

 private:
  void Arm() {
    armed_ = at_;
    watch_ = loop_.After(std::max<int64_t>(0, at_ - BootMillis()), [this] {
      armed_ = kNever;
      if (BootMillis() < at_) {
        Arm();
      } else {
        wake_();
      }
    });
  }

  Loop& loop_;
  std::function<void()> wake_;
  int64_t at_ = kNever, armed_ = kNever;
  Loop::Watch watch_;
};

}  // namespace autotune::rpc
