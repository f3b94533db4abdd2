// Alone keeps other processes from building or measuring on this host, or from measuring on its GPU, while this process
// measures there. RunInTurns makes a long measurement and lets others have turns every few seconds. Not thread-safe.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "support/host_lock.h"
#include "support/result.h"

namespace autotune::tools {

// Takes the lock `path` of the host or of a device and waits for it up to `wait` seconds. If that fails, this
// measurement runs without the lock, and later calls take the lock only if it is free at once. The first failure prints
// a note on standard error.
class Alone {
 public:
  explicit Alone(double wait, std::string path = HostLock::Path()) : path_(std::move(path)), wait_(wait) {}
  std::optional<HostLock> Take();
  // Returns true if every Take since the last call of this function got the lock.
  bool TakeUndisturbed() { return std::exchange(undisturbed_, true); }

 private:
  const std::string path_;
  double wait_;
  bool undisturbed_ = true;
  bool said_ = false;  // true: the note is printed
};

// Calls `once` at least `least` times, and then until `seconds` have passed. Time spent waiting for the lock
// does not count.
Status RunInTurns(double seconds, int least, Alone& alone, const std::function<Status()>& once);

// Returns the seconds of a monotonic clock.
double MonotonicSeconds();

}  // namespace autotune::tools
