#include "tools/autotune/alone.h"

#include <unistd.h>

#include <chrono>

#include "tools/autotune/console.h"

namespace autotune::tools {
namespace {

constexpr double kTurn = 5;                  // seconds after which a long measurement releases the host to others
constexpr useconds_t kBetweenTurns = 20000;  // microseconds; longer than the polling interval of waiting processes

}  // namespace

double MonotonicSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::optional<HostLock> Alone::Take() {
  auto lock = HostLock::AcquireWithin(HostLock::Mode::kExclusive, static_cast<int64_t>(wait_ * 1e3), nullptr, path_);
  if (lock.ok() && *lock) return std::move(*lock);
  if (!std::exchange(said_, true)) {
    const std::string why = lock.ok() ? HostLock::HeldText(path_) : lock.error().Text();
    Console::Get().Note("these times may be disturbed: " + why);
  }
  undisturbed_ = false;
  wait_ = 0;
  return std::nullopt;
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
