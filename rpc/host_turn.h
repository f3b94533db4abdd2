// HostTurn: the time in which a device server has its host, or its GPU, for a batch. It takes the lock
// (support/host_lock.h). If others keep the lock for too long, the turn begins without it, and says why. Not
// thread-safe; all calls on the loop's thread. Must live as long as the loop runs.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "support/host_lock.h"
#include "support/log.h"
#include "support/loop.h"

namespace autotune::rpc {

class HostTurn {
 public:
  struct Options {
    bool locks = true;               // false: every turn begins without the lock (--shared-host)
    std::string name = "this host";  // for the log
    LogLevel wait_level = LogLevel::kWarning;
    int64_t patience_ms = 30000;  // longest wait for the lock
  };
  // `on_begin` is called once for each Want, from the loop. `unlocked` says why the turn has no lock; it is empty if it
  // has.
  HostTurn(Loop& loop, Options options, std::function<void(const std::string& unlocked)> on_begin)
      : loop_(loop), options_(std::move(options)), on_begin_(std::move(on_begin)) {}

  void SetPath(std::string path) { path_ = std::move(path); }
  const std::string& path() const { return path_; }

  // Waits for the lock as long as the options say, or not at all.
  void Want(bool patient = true);
  // Ends the turn, or the wait for it. Unlock follows once nothing of the turn runs any more.
  void End();
  bool Wanted() const { return needed_; }  // true from Want to End
  // Says who has the lock for which it waits; empty if it does not wait.
  std::string WaitsFor() const { return waits_ ? HostLock::HeldText(path_) : ""; }
  void Unlock() { lock_.reset(); }

 private:
  void Try();
  void Begin(const std::string& unlocked);
  void LogWait();

  Loop& loop_;
  const Options options_;
  std::function<void(const std::string&)> on_begin_;
  std::string path_ = HostLock::Path();
  std::optional<HostLock> lock_;
  bool waits_ = false;  // true from Want to on_begin
  bool patient_ = true;
  bool needed_ = false;  // true from Want to End
  int64_t since_ = 0;    // BootMillis of Want
  int64_t next_log_ = 0;
  Loop::Watch retry_;
};

}  // namespace autotune::rpc
