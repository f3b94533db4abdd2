#include "tools/power_switch.h"

#include <algorithm>
#include <utility>

#include "rpc/peer_text.h"
#include "support/clock.h"
#include "support/clock_text.h"

namespace autotune::tools {
namespace {

constexpr int64_t kLookMs = 1000;      // between two looks at the silent servers and the commands [chosen]
constexpr int64_t kLongestMs = 60000;  // of a command [chosen]

}  // namespace

PowerSwitch::PowerSwitch(Loop& loop, Options options)
    : options_(std::move(options)), cycle_(options_.cycle), look_(loop.Every(kLookMs, [this] { Look(); })) {}

void PowerSwitch::Look() {
  std::erase_if(runs_, [this](Run& run) { return IsOver(run); });
  for (const ServerSilence& server : cycle_.Due(options_.silences(), BootMillis())) Start(server);
}

void PowerSwitch::Start(const ServerSilence& server) {
  const int switches = cycle_.Switches(server.member, BootMillis());
  options_.log("`" + server.key + "` (member " + server.member + ") has been silent for " +
               LastingText(server.silent_ms) + ": running the command of --power-cycle" +
               (switches < options_.cycle.most_a_day ? "" : "; not again before a day is over"));
  auto child = Subprocess::Spawn({.argv = {"/bin/sh", "-c", options_.command},
                                  .fds = {{1, 2}, {2, 2}},  // the log
                                  .environment = {"AUTOTUNE_MEMBER=" + server.member, "AUTOTUNE_KEY=" + server.key,
                                                  "AUTOTUNE_ADDRESS=" + server.address}});
  if (!child.ok()) return options_.log("cannot run the command of --power-cycle: " + child.error().Text());
  runs_.push_back({server.member, std::move(*child), BootMillis()});
}

bool PowerSwitch::IsOver(Run& run) {
  const std::string about = "the command of --power-cycle for " + run.member + " ";
  if (const auto status = run.command.Poll()) {
    options_.log(about + (status->ok() ? "has switched its power" : "failed: it " + status->Text()));
    return true;
  }
  if (BootMillis() - run.began < kLongestMs) return false;
  run.command.Kill();
  options_.log(about + "was killed: it ran for " + LastingText(kLongestMs));
  return true;
}

}  // namespace autotune::tools
