// Alone keeps other processes from building or measuring on this host while this process measures. RunInTurns makes a
// long measurement and releases the host to others every few seconds. Not thread-safe.
#pragma once
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "support/host_lock.h"
#include "support/result.h"

namespace autotune::tools {

// Take acquires the host's lock and waits for it up to `wait` seconds. If that fails, this measurement runs without the
// lock, and later calls of Take do not wait. A note on standard error, printed once each, tells that a wait begins or
// has failed.
class Alone {
 public:
  explicit Alone(double wait) : wait_(wait) {}
  std::optional<HostLock> Take();
  // True if every Take since the last call got the lock.
  bool TakeUndisturbed() { return std::exchange(undisturbed_, true); }

 private:
  std::optional<HostLock> Within(double seconds);
  void Say(const std::string& note);

  double wait_;
  bool undisturbed_ = true;
  std::string error_;
  std::set<std::string> said_;
};

// Calls `once` at least `least` times, and then until `seconds` have passed. Time spent waiting for the host's lock
// does not count.
Status RunInTurns(double seconds, int least, Alone& alone, const std::function<Status()>& once);

// Returns the seconds of a monotonic clock.
double MonotonicSeconds();

}  // namespace autotune::tools
