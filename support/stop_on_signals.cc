#include "support/stop_on_signals.h"

#include <unistd.h>

#include <csignal>
#include <utility>

namespace autotune {

StopOnSignals::StopOnSignals(std::stop_source source, int exit_code) : source_(std::move(source)) {
  signals_ = loop_.OnSignals({SIGINT, SIGTERM}, [this, exit_code](int) {
    if (!source_.request_stop()) _exit(exit_code);
  });
  thread_ = std::thread([this] { loop_.Run(); });
}

StopOnSignals::~StopOnSignals() {
  loop_.Stop();
  thread_.join();
  signals_.reset();
}

}  // namespace autotune
