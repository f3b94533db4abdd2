// StopOnSignals: turns SIGINT and SIGTERM into a request to stop, for programs that have something to save first, or
// into an exit code. A thread makes the request, not a signal handler, so callbacks of the token may lock and allocate.
// At most one object may exist at a time. Not for servers, whose loops handle signals themselves (support/loop.h).
#pragma once
#include <functional>
#include <stop_token>
#include <thread>

#include "support/loop.h"

namespace autotune {

class StopOnSignals {
 public:
  // The first signal requests the stop of `source`; the second ends the process at once with `exit_code`. Before that,
  // `at_exit` is called, if given, for example to leave the terminal in order.
  StopOnSignals(std::stop_source source, int exit_code, std::function<void()> at_exit = nullptr);
  // A signal ends the process at once with `exit_code`, since there is nothing to save.
  explicit StopOnSignals(int exit_code, std::function<void()> at_exit = nullptr);
  // Each signal calls `ends`. If it returns true, the process ends at once with `exit_code`.
  StopOnSignals(std::function<bool()> ends, int exit_code);
  // After the destruction, a signal ends the process as usual.
  ~StopOnSignals();
  StopOnSignals(const StopOnSignals&) = delete;

 private:
  Loop loop_;
  Loop::Watch signals_;
  std::thread thread_;
};

}  // namespace autotune
