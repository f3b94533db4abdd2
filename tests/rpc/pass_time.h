// For tests: lets virtual time pass for a state machine of the farm.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>

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

// Calls a machine at the times that it names, in an environment that can call a function later.
class Alarm {
 public:
  using After = std::function<void(int64_t delay_ms, std::function<void()>)>;
  Alarm(std::function<int64_t()> now, After after, std::function<void()> wake)
      : now_(std::move(now)), after_(std::move(after)), wake_(std::move(wake)) {}

  void Set(int64_t at) {  // to be called after each input of the machine
    at_ = at;
    if (at >= armed_) return;
    armed_ = at;
    after_(std::max<int64_t>(0, at - now_()), [this, at] {
      if (armed_ != at) return;
      armed_ = rpc::kNever;
      if (at_ > now_()) return Set(at_);
      wake_();
    });
  }

 private:
  std::function<int64_t()> now_;
  After after_;
  std::function<void()> wake_;
  int64_t at_ = rpc::kNever, armed_ = rpc::kNever;
};

}  // namespace autotune::test
