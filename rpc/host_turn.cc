#include "rpc/host_turn.h"

#include "support/clock.h"

namespace autotune::rpc {
namespace {

constexpr int64_t kUnloggedWaitMs = 1000;   // duration of a wait for the lock that is not logged
constexpr int64_t kWaitLogEveryMs = 60000;  // least time between two log lines about such waits
constexpr int64_t kRetryMs = 5;             // time between two tries to take the lock

}  // namespace

void HostTurn::Want(bool patient) {
  waits_ = needed_ = true;
  patient_ = patient;
  since_ = BootMillis();
  loop_.Post([this] { Try(); });  // `on_begin` must not run inside this call
}

void HostTurn::End() {
  waits_ = needed_ = false;
  retry_.reset();
}

void HostTurn::Begin(const std::string& unlocked) {
  waits_ = false;
  on_begin_(unlocked);
}

void HostTurn::Try() {
  if (!waits_) return;
  if (!options_.locks) return Begin("the server measures without the host's lock (--shared-host)");
  if (lock_) return Begin("");
  auto lock = HostLock::TryAcquire(HostLock::Mode::kExclusive, path_);
  if (lock && *lock) {
    lock_ = std::move(**lock);
    return Begin("");
  }
  if (lock && patient_ && BootMillis() - since_ < options_.patience_ms) {
    LogWait();
    retry_ = loop_.After(kRetryMs, [this] { Try(); });
    return;
  }
  const std::string why = lock ? HostLock::HeldText(path_) : lock.error().Text();
  if (patient_) Log(LogLevel::kWarning, "measuring without the lock, so times may be disturbed: ", why);
  Begin("measured without the host's lock: " + why);
}

void HostTurn::LogWait() {
  const int64_t now = BootMillis();
  if (now - since_ < kUnloggedWaitMs || now < next_log_) return;
  next_log_ = now + kWaitLogEveryMs;
  Log(options_.wait_level, "waiting for ", options_.name, ": ", HostLock::HeldText(path_));
}

}  // namespace autotune::rpc
