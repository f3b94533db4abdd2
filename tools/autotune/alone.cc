#include "tools/autotune/alone.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace autotune::tools {
namespace {

constexpr double kTurn = 5;                  // seconds after which a long measurement releases the host to others
constexpr useconds_t kBetweenTurns = 20000;  // microseconds; longer than the polling interval of waiting processes

}  // namespace

double MonotonicSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::optional<HostLock> Alone::Take() {
  std::optional<HostLock> lock = Within(std::min(wait_, 1.0));
  if (!lock && wait_ > 1) {
    Say("waiting for other processes that build or measure on this host and hold " + HostLock::Path());
    lock = Within(wait_ - 1);
  }
  if (!lock) {
    Say("these times may be disturbed: " + (error_.empty() ? "other processes hold " + HostLock::Path() : error_));
    undisturbed_ = false;
    wait_ = 0;
  }
  return lock;
}

std::optional<HostLock> Alone::Within(double seconds) {
  auto lock = HostLock::AcquireWithin(HostLock::Mode::kExclusive, static_cast<int64_t>(seconds * 1e3));
  if (lock.ok()) return std::move(*lock);
  error_ = lock.error().Text();
  wait_ = 0;
  return std::nullopt;
}

void Alone::Say(const std::string& note) {
  if (said_.insert(note).second) std::fprintf(stderr, "note: %s\n", note.c_str());
}

Status RunInTurns(double seconds, int least, Alone& alone, const std::function<Status()>& once) {
  int calls = 0;
  for (double left = seconds; calls < least || left > 0;) {
    if (calls > 0) usleep(kBetweenTurns);
    std::optional<HostLock> lock = alone.Take();
    const double start = MonotonicSeconds();
    double now = start;
    while ((calls < least || now - start < left) && now - start < kTurn) {
      TRY(once());
      ++calls;
      now = MonotonicSeconds();
    }
    left -= now - start;
  }
  return {};
}

}  // namespace autotune::tools
