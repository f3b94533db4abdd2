#include "support/stop_on_signals.h"

#include <unistd.h>

#include <csignal>
#include <utility>

namespace autotune {
namespace {

std::stop_source Stopped() {
  std::stop_source source;
  source.request_stop();
  return source;
}

}  // namespace

StopOnSignals::StopOnSignals(std::stop_source source, int exit_code, std::function<void()> at_exit)
    : source_(std::move(source)) {
  signals_ = loop_.OnSignals({SIGINT, SIGTERM}, [this, exit_code, at_exit = std::move(at_exit)](int) {
    if (source_.request_stop()) return;
    if (at_exit) at_exit();
    _exit(exit_code);
  });
  thread_ = std::thread([this] { loop_.Run(); });
}

StopOnSignals::StopOnSignals(int exit_code, std::function<void()> at_exit)
    : StopOnSignals(Stopped(), exit_code, std::move(at_exit)) {}

StopOnSignals::~StopOnSignals() {
  loop_.Stop();
  thread_.join();
  signals_.reset();
}

}  // namespace autotune
