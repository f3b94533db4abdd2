#include "tools/autotune/waits.h"

#include "support/clock.h"
#include "support/clock_text.h"
#include "tools/autotune/console.h"
#include "tools/autotune/text.h"

namespace autotune::tools {

std::string WaitText(const std::string& what, int64_t since, const std::string& reason) {
  const int64_t waited = BootMillis() - since;
  return "waiting for " + what + " since " + ClockText(WallMillis() - waited) + " (" +
         DurationText(static_cast<double>(waited) / 1e3) + "): " + reason;
}

bool WaitLines::IsDue(const std::string& what) {
  constexpr int64_t kEvery = 60'000;  // milliseconds
  const int64_t now = BootMillis();
  auto [last, first] = last_.try_emplace(what, now);
  if (!first && now - last->second < kEvery) return false;
  last->second = now;
  return true;
}

void HostWaitNotes::Note(const HostWait& wait) {
  if (wait.reason.empty() || !lines_.IsDue(kThisHost)) return;
  Console::Get().Note(WaitText(kThisHost, wait.since, wait.reason));
}

}  // namespace autotune::tools
