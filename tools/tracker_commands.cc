#include "tools/tracker_commands.h"

#include <pwd.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "rpc/query_tracker.h"
#include "rpc/transport.h"
#include "support/clock.h"
#include "support/clock_text.h"
#include "support/hint.h"
#include "support/json.h"
#include "support/loop.h"
#include "support/terminal.h"
#include "support/utf8.h"
#include "tools/duration.h"
#include "tools/farm_status.h"

namespace autotune::tools {
namespace {

constexpr char kDrain[] = "drain", kLock[] = "lock", kUndrain[] = "undrain", kRelease[] = "release";

std::string UserAtHost() {
  char host[256] = "localhost";
  gethostname(host, sizeof host - 1);
  const passwd* user = getpwuid(geteuid());
  return std::string(user ? user->pw_name : "user") + "@" + host;
}

// Sends an administrator's request to a tracker, and returns the answer.
Result<rpc::Message> Ask(const TrackerChoice& choice, rpc::Body body) {
  constexpr int kFirstMinor = 4;  // of the version 2 that has these requests
  return rpc::QueryTracker(TRY(choice.FindForAdmin()), {.body = std::move(body), .first_minor = kFirstMinor});
}

std::string DeviceLine(const rpc::HeldDevice& device, const std::string& how) {
  std::string line =
      "  " + OneLine(device.key) + " (server " + OneLine(device.server) + ") is " + OneLine(device.state);
  if (device.client_name.empty()) return line + "\n";
  const std::string client = OneLine(device.client_name);
  if (how == rpc::hold::kDrain) return line + ": " + client + " has it until it gives it back\n";
  if (how == rpc::hold::kLock) return line + ": " + client + " has lost it\n";
  return line + ": " + client + " has it\n";
}

void PrintHeld(const rpc::DeviceHeld& held, const rpc::DeviceHold& hold) {
  const bool ends = hold.how == rpc::hold::kNone;
  std::string text;
  for (const std::string& pattern : held.patterns) {
    text += "`" + OneLine(pattern) + "` " +
            (ends                           ? "back in service"
             : hold.how == rpc::hold::kLock ? "locked"
                                            : "drained");
    if (hold.for_ms > 0) text += " until " + MomentText(WallMillis() + hold.for_ms, WallMillis());
    text += "\n";
  }
  for (const rpc::HeldDevice& device : held.devices) text += DeviceLine(device, hold.how);
  if (held.omitted > 0) text += "  and " + std::to_string(held.omitted) + " more devices\n";
  if (held.devices.empty() && !ends) text += "  no such device is connected now; it holds for those that come\n";
  fputs(text.c_str(), stdout);
}

// What `status --watch` prints. Times and counters, which grow all the time, are no change.
class StatusPrinter {
 public:
  StatusPrinter(std::string endpoint, bool json)
      : endpoint_(std::move(endpoint)), json_(json), draws_(!json && IsTerminal(STDOUT_FILENO)) {}

  void Show(const rpc::StatusReply& reply) {
    latest_ = json_ ? ToJson(reply).Dump() + "\n" : StatusText(reply);
    const std::string essence = EssenceOf(reply);
    if (draws_) return Draw(latest_);
    if (essence != std::exchange(essence_, essence)) Print(latest_);
  }
  // No tracker has answered since this time of day.
  void ShowSilence(int64_t since) {
    const std::string text = "no tracker answers at " + endpoint_ + " since " + ClockText(since) + "; asking on";
    if (draws_) return Draw(text + "\n" + latest_);
    if (std::exchange(essence_, "silent") == "silent") return;
    Print(json_ ? ToJson(rpc::Refusal{"silent", text}).Dump() + "\n" : text + "\n");
  }

 private:
  static std::string EssenceOf(rpc::StatusReply reply) {
    reply.uptime_ms = reply.malformed = 0;
    for (rpc::DeviceStatus& device : reply.devices) {
      device.since_ms = device.last_seen_ms = 0;
      device.trials.clear();
    }
    for (rpc::QueueStatus& waiting : reply.queue) waiting.waiting_ms = 0;
    for (auto& [key, age] : reply.absent_keys) age = 0;
    for (rpc::DeviceHold& hold : reply.holds) hold.for_ms = 0;
    return ToJson(reply).Dump();
  }
  // Blocks of text are separated by the time of day.
  void Print(const std::string& text) {
    if (!json_) printf("--- %s\n", ClockText(WallMillis()).c_str());
    fputs(text.c_str(), stdout);
    fflush(stdout);
  }
  void Draw(const std::string& text) {
    constexpr char kHomeAndErase[] = "\x1b[H\x1b[2J";
    fputs((kHomeAndErase + text).c_str(), stdout);
    fflush(stdout);
  }

  std::string endpoint_;
  bool json_, draws_;
  std::string latest_, essence_;
};

}  // namespace

TrackerCommands::TrackerCommands(CLI::App& app) {
  const auto add = [&](const char* name, const char* description) {
    CLI::App* command = app.add_subcommand(name, description);
    AddAdminOptions(*command, tracker_);
    commands_[name] = command;
    return command;
  };
  const auto add_hold = [&](const char* name, const char* description) {
    CLI::App* command = add(name, description);
    command
        ->add_option("PATTERN", pattern_,
                     "Keys of devices, with * and ?, quoted for the shell; or the first digits of a server")
        ->required();
    return command;
  };
  for (CLI::App* command : {add_hold(kDrain, "Grant these devices to nobody; leases end as usual"),
                            add_hold(kLock, "Grant these devices to nobody, and end their leases now")}) {
    command->add_option("--for", for_, "Time after which this ends by itself: 90s, 10m, 2h or 3d");
    command->add_option("--note", note_, "The reason, for those who wait");
  }
  add_hold(kUndrain, "End what drain and lock did");
  add(kRelease, "End a lease now")
      ->add_option("LEASE", lease_, "First digits of the lease, as status shows it")
      ->required();
}

bool TrackerCommands::Given() const {
  for (const auto& [name, command] : commands_)
    if (command->parsed()) return true;
  return false;
}

Status TrackerCommands::Check() const {
  if (!for_.empty()) TRY(ParseDuration("--for", for_));
  if (!pattern_.empty() && !rpc::IsPattern(pattern_)) return Err(rpc::kPatternRule);
  if (note_.size() > rpc::kNameBytes)
    return Err("--note has ", note_.size(), " bytes; ", rpc::kNameBytes, " is the limit");
  return {};
}

Status TrackerCommands::Run() const {
  if (commands_.at(kRelease)->parsed()) {
    const rpc::Message answer = TRY(Ask(tracker_, rpc::LeaseRevoke{lease_, UserAtHost()}));
    const auto* revoked = answer.As<rpc::LeaseRevoked>();
    if (!revoked) return Err("the tracker answers with a ", std::string(KindOf(answer.body)));
    printf("%s (server %s) taken from %s\n", OneLine(revoked->key).c_str(), OneLine(revoked->server).c_str(),
           OneLine(revoked->client_name).c_str());
    return {};
  }
  rpc::DeviceHold hold{pattern_, rpc::hold::kNone, 0, note_, UserAtHost()};
  if (commands_.at(kDrain)->parsed()) hold.how = rpc::hold::kDrain;
  if (commands_.at(kLock)->parsed()) hold.how = rpc::hold::kLock;
  if (!for_.empty()) hold.for_ms = TRY(ParseDuration("--for", for_));
  const rpc::Message answer = TRY(Ask(tracker_, hold));
  const auto* held = answer.As<rpc::DeviceHeld>();
  if (!held) return Err("the tracker answers with a ", std::string(KindOf(answer.body)));
  PrintHeld(*held, hold);
  return {};
}

void WatchStatus(const rpc::Address& tracker, const std::string& key, bool json) {
  constexpr int64_t kIntervalMs = 1000, kSilenceMs = 3000;
  Loop loop;
  StatusPrinter printer(tracker.Text(), json);
  const auto signals = loop.OnSignals({SIGINT, SIGTERM}, [&](int) { loop.Stop(); });
  int64_t heard = BootMillis();
  std::optional<int64_t> silent_since;  // time of day
  std::unique_ptr<rpc::DealerSocket> socket;
  const auto ask = [&] { socket->Send({rpc::RandomId(), rpc::StatusRequest{key}, {}}); };
  auto connected = rpc::DealerSocket::Connect(loop, tracker,
                                              {.on_message =
                                                   [&](rpc::Message message) {
                                                     const auto* reply = message.As<rpc::StatusReply>();
                                                     if (!reply) return;
                                                     heard = BootMillis();
                                                     silent_since.reset();
                                                     printer.Show(*reply);
                                                     if (ferror(stdout)) loop.Stop();
                                                   },
                                               .on_connected = ask},
                                              rpc::DealerSocket::Peers::kTracker);
  if (!connected) return printer.ShowSilence(WallMillis());
  socket = std::move(*connected);
  const auto again = loop.Every(kIntervalMs, [&] {
    ask();
    const int64_t silence = BootMillis() - heard;
    if (silence < kSilenceMs) return;
    if (!silent_since) silent_since = WallMillis() - silence;
    printer.ShowSilence(*silent_since);
  });
  loop.Run();
}

}  // namespace autotune::tools
