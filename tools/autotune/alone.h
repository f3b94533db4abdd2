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

// Takes the host's lock and waits for it up to `wait` seconds. If that fails, this measurement runs without the lock,
// and later calls take the lock only if it is free at once. Prints a note on standard error when a wait exceeds a
// second and when a wait fails, each only once.
class Alone {
 public:
  explicit Alone(double wait) : wait_(wait) {}
  std::optional<HostLock> Take();
  // Returns true if every Take since the last call of this function got the lock.
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
