// HostLock: a lock of this host that keeps measurements undisturbed. Builds, search and training hold it shared; a
// measurement on this host's own CPU holds it exclusively. It is a flock on $AUTOTUNE_HOST_LOCK or
// /tmp/autotune-host.lock, so the lock ends with the process that holds it. Each other device of the host, such as a
// GPU, has a lock of its own (PathOf), which a measurement on this device holds exclusively. Movable, not thread-safe;
// one HostLock per holder. Never hold the lock shared while waiting for a measurement, since the measurement waits for
// the lock. HostWaitWatch hears of waits for the lock.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "support/result.h"
#include "support/unique_fd.h"

namespace autotune {

class HostLock {
 public:
  enum class Mode { kShared, kExclusive };

  // Waits. If `*stop` becomes true, the wait ends with an error of kind kStopped.
  static Result<HostLock> Acquire(Mode mode, const std::atomic<bool>* stop = nullptr);
  // nullopt: another holder prevents it. `path` is Path() or PathOf a device.
  static Result<std::optional<HostLock>> TryAcquire(Mode mode, const std::string& path = Path());
  // Waits at most `milliseconds`. Returns nothing if others still hold the lock then. A measurement should then run
  // without the lock, although it may be disturbed, since overlapping builds could hold the lock forever. `stop` as in
  // Acquire.
  static Result<std::optional<HostLock>> AcquireWithin(Mode mode, int64_t milliseconds,
                                                       const std::atomic<bool>* stop = nullptr,
                                                       const std::string& path = Path());
  static std::string Path();
  // Returns the path of the lock of a device: Path() and the device's Identity (runtime/device.h). An empty identity is
  // that of the host's own CPU.
  static std::string PathOf(const std::string& identity);
  // Says who holds the lock now: "/tmp/autotune-host.lock is held by process 4711 (autotune)". If the system does not
  // name the holders, for example because they run in another container, the text says "another process".
  static std::string HeldText(const std::string& path = Path());

 private:
  explicit HostLock(UniqueFd fd) : fd_(std::move(fd)) {}
  static Result<std::optional<HostLock>> Wait(Mode mode, std::optional<int64_t> milliseconds,
                                              const std::atomic<bool>* stop, const std::string& path);
  UniqueFd fd_;
};

// A wait of this process for the lock.
struct HostWait {
  int64_t since = 0;   // BootMillis at its begin
  std::string reason;  // HostLock::HeldText; empty: the wait has ended
};

// Hears of this process's waits for the lock while it exists. A wait is reported after its first second, then every
// second, and at its end; a shorter wait is not reported. The waiting threads call `on_wait`, one at a time. It must
// not use HostLock. If there are several watches, only the latest one hears of waits. If there is none, a wait is
// logged as a warning (support/log.h).
class HostWaitWatch {
 public:
  explicit HostWaitWatch(std::function<void(const HostWait&)> on_wait);
  ~HostWaitWatch();
  HostWaitWatch(const HostWaitWatch&) = delete;

  // Passes a report on to the latest watch. Returns false if there is none. Only HostLock reports waits.
  static bool Tell(const HostWait& wait);

 private:
  std::function<void(const HostWait&)> on_wait_;
  HostWaitWatch* earlier_;
};

}  // namespace autotune
