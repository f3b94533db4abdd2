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

StopOnSignals::StopOnSignals(std::stop_source source, int exit_code) : source_(std::move(source)) {
  signals_ = loop_.OnSignals({SIGINT, SIGTERM}, [this, exit_code](int) {
    if (!source_.request_stop()) _exit(exit_code);
  });
  thread_ = std::thread([this] { loop_.Run(); });
}

StopOnSignals::StopOnSignals(int exit_code) : StopOnSignals(Stopped(), exit_code) {}

StopOnSignals::~StopOnSignals() {
  loop_.Stop();
  thread_.join();
  signals_.reset();
}

}  // namespace autotune
