// The time of the farm's state machines. A machine has no clock and no periodic call. It gives its driver the time at
// which it wants to be called next, NextWake(), and the driver calls Wake(now) then, never earlier. Times are in
// milliseconds of CLOCK_BOOTTIME. Not thread-safe.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "rpc/rules.h"
#include "support/check.h"

namespace autotune::rpc {

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
// A link to another host may break for some seconds. This is the longest silence of a party there that counts as such a
// break. It is shorter than the 10 s after which a lease ends that nobody renews.
inline constexpr int64_t kLongestBreakMs = 9000;

// The earliest of a machine's timers: when it is due, and the member function to call then. That function must remove
// the timer or set it to a later time.
template <class Machine>
class EarliestTimer {
 public:
  using Act = void (Machine::*)(int64_t now);

  void Add(int64_t at, Act act) {
    if (at < at_) at_ = at, act_ = act;
  }
  int64_t at() const { return at_; }
  Act act() const { return act_; }

 private:
  int64_t at_ = kNever;
  Act act_ = nullptr;
};

// Runs the timers of a machine that are due, the earliest first. `earliest` returns its EarliestTimer.
template <class Machine, class Earliest>
void RunTimers(Machine& machine, const Earliest& earliest, int64_t now) {
  constexpr int kMost = 1 << 22;  // far more timers than a farm has: one of them does not move
  int ran = 0;
  for (auto timer = earliest(); timer.at() <= now; timer = earliest()) {
    (machine.*timer.act())(now);
    CHECK(++ran < kMost) << "a timer stays due";
  }
}

// NextWake and Wake of a machine, made of its private members Earliest, Advance and Take.
template <class Machine>
class Timed {
 public:
  // The time at which Wake must be called, after each input; kNever: not before the next input.
  int64_t NextWake() const { return static_cast<const Machine&>(*this).Earliest().at(); }
  auto Wake(int64_t now) {
    Machine& machine = static_cast<Machine&>(*this);
    CHECK(now >= NextWake()) << "woken too early";
    machine.Advance(now);
    RunTimers(
        machine, [&machine] { return machine.Earliest(); }, now);
    return machine.Take();
  }
};

// Calls a machine at the times that it names, in an environment that can call a function later.
class Alarm {
 public:
  using After = std::function<void(int64_t delay_ms, std::function<void()>)>;
  // `wake` is called when the time has come. It should end with Set.
  Alarm(std::function<int64_t()> now, After after, std::function<void()> wake)
      : now_(std::move(now)), after_(std::move(after)), wake_(std::move(wake)) {}

  // To be called after each input of the machine, with its NextWake(). A call that was asked for and comes too early
  // asks for another one: times mostly move to later ones.
  void Set(int64_t at) {
    at_ = at;
    if (at >= armed_) return;
    armed_ = at;
    after_(std::max<int64_t>(0, at - now_()), [this, at] {
      if (armed_ != at) return;
      armed_ = kNever;
      if (at_ > now_()) return Set(at_);
      wake_();
    });
  }

 private:
  std::function<int64_t()> now_;
  After after_;
  std::function<void()> wake_;
  int64_t at_ = kNever, armed_ = kNever;
};

// The deadlines of many things of one kind. Setting or clearing one takes logarithmic time.
template <class Key>
class Deadlines {
 public:
  void Set(const Key& key, int64_t at) {
    const auto [place, is_new] = at_.try_emplace(key, at);
    if (!is_new) order_.erase({std::exchange(place->second, at), key});
    order_.emplace(at, key);
  }
  void Clear(const Key& key) {
    auto it = at_.find(key);
    if (it == at_.end()) return;
    order_.erase({it->second, key});
    at_.erase(it);
  }
  size_t Size() const { return at_.size(); }
  int64_t Earliest() const { return order_.empty() ? kNever : order_.begin()->first; }
  const Key& First() const { return order_.begin()->second; }  // there must be one
  void PostponeAll(int64_t by) {
    order_.clear();
    for (auto& [key, at] : at_) order_.insert({at += by, key});
  }

 private:
  std::map<Key, int64_t> at_;
  std::set<std::pair<int64_t, Key>> order_;
};

// Finds the times in which this process did not run: it was stopped, or the host was suspended. What arrived meanwhile
// is still unread, so whoever judges another party by its silence must not count this time.
class StoppedTime {
 public:
  // Returns for how long the process may have been stopped before this input of its machine, else 0. `wake` is the
  // machine's NextWake() before the input. A process that ran would have called it then.
  int64_t Before(int64_t now, int64_t wake) {
    constexpr int64_t kLongest = 500;  // delay of a call on a busy host
    const int64_t last = std::exchange(last_, now);
    return Holds(Rule::kStoppedTime) && last >= 0 && wake != kNever && now - wake > kLongest ? now - last : 0;
  }

 private:
  int64_t last_ = -1;
};

}  // namespace autotune::rpc
