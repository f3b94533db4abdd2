// HostLock: a lock of this host that keeps measurements undisturbed. Builds, search and training hold it shared; a
// measurement on this host's own CPU holds it exclusively. It is a flock on $AUTOTUNE_HOST_LOCK or
// /tmp/autotune-host.lock, so the lock ends with the process that holds it. Movable, not thread-safe; one HostLock per
// holder. Never hold the lock shared while waiting for a measurement, since the measurement waits for the lock.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "support/result.h"
#include "support/unique_fd.h"

namespace autotune {

class HostLock {
 public:
  enum class Mode { kShared, kExclusive };

  static Result<HostLock> Acquire(Mode mode);                    // waits
  static Result<std::optional<HostLock>> TryAcquire(Mode mode);  // nullopt: another holder prevents it
  // Waits at most `milliseconds`. Returns nothing if others still hold the lock then. A measurement should then run
  // without the lock, although it may be disturbed, since overlapping builds could hold the lock forever.
  static Result<std::optional<HostLock>> AcquireWithin(Mode mode, int64_t milliseconds);
  static std::string Path();

 private:
  explicit HostLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace autotune
