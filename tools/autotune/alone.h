// Alone: has this host for measurements while nobody else builds or measures on it. RunInTurns: a long measurement that
// lets others have the host in between. Not thread-safe.
#pragma once
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "support/host_lock.h"
#include "support/result.h"

namespace autotune::tools {

// After `wait` seconds in vain a measurement goes on disturbed, and later ones wait no more. Says on standard error,
// once each, that it waits and that it gave up.
class Alone {
 public:
  explicit Alone(double wait) : wait_(wait) {}
  std::optional<HostLock> Take();
  bool TakeUndisturbed() { return std::exchange(undisturbed_, true); }  // since the last call

 private:
  std::optional<HostLock> Within(double seconds);
  void Say(const std::string& note);

  double wait_;
  bool undisturbed_ = true;
  std::string error_;
  std::set<std::string> said_;
};

// Calls `once` at least `least` times, and as often as `seconds` hold, not counting the time spent waiting for the
// host.
Status RunInTurns(double seconds, int least, Alone& alone, const std::function<Status()>& once);

// Seconds on a clock that only goes forward.
double MonotonicSeconds();

}  // namespace autotune::tools
