#include "support/stop_on_signals.h"

#include <unistd.h>

#include <csignal>
#include <utility>

namespace autotune {

StopOnSignals::StopOnSignals(std::function<bool()> ends, int exit_code) {
  signals_ = loop_.OnSignals({SIGINT, SIGTERM}, [exit_code, ends = std::move(ends)](int) {
    if (ends()) _exit(exit_code);
  });
  thread_ = std::thread([this] { loop_.Run(); });
}

StopOnSignals::StopOnSignals(std::stop_source source, int exit_code, std::function<void()> at_exit)
    : StopOnSignals(
          [source = std::move(source), at_exit = std::move(at_exit)]() mutable {
            if (source.request_stop()) return false;
            if (at_exit) at_exit();
            return true;
          },
          exit_code) {}

StopOnSignals::StopOnSignals(int exit_code, std::function<void()> at_exit)
    : StopOnSignals(
          [at_exit = std::move(at_exit)] {
            if (at_exit) at_exit();
            return true;
          },
          exit_code) {}

StopOnSignals::~StopOnSignals() {
  loop_.Stop();
  thread_.join();
  signals_.reset();
}

}  // namespace autotune
