#include "tools/autotune/waits.h"

#include <algorithm>

#include "service/events.h"
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

namespace {

// Returns a reason without what changes all the time: numbers, and the holders of devices.
std::string KindOf(std::string reason) {
  reason.resize(std::min(reason.size(), reason.find("; held by ")));
  std::erase_if(reason, [](char c) { return c >= '0' && c <= '9'; });
  return reason;
}

}  // namespace

bool WaitLines::IsDue(const std::string& what, const std::string& reason) {
  constexpr int64_t kEvery = 60'000;  // milliseconds
  const int64_t now = BootMillis();
  const std::string kind = KindOf(reason);
  auto [last, first] = last_.try_emplace(what, Latest{now, kind});
  if (!first && now - last->second.time < kEvery && last->second.kind == kind) return false;
  last->second = {now, kind};
  return true;
}

void HostWaitNotes::Note(const HostWait& wait) {
  if (wait.reason.empty() || !lines_.IsDue(event::kThisHost, "")) return;
  Console::Get().Note(WaitText(event::kThisHost, wait.since, wait.reason));
}

}  // namespace autotune::tools
