// rpc_tracker grants clients leases on measurement devices.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "rpc/query_tracker.h"
#include "support/file.h"
#include "support/json.h"
#include "support/loop.h"
#include "support/state_folder.h"
#include "support/subprocess.h"
#include "tools/autotune/usage.h"
#include "tools/descriptors.h"
#include "tools/duration.h"
#include "tools/event_log.h"
#include "tools/farm_status.h"
#include "tools/guarded_main.h"
#include "tools/live/farm_page.h"
#include "tools/member_commands.h"
#include "tools/power_switch.h"
#include "tools/return_memory.h"
#include "tools/tracker_choice.h"
#include "tools/tracker_commands.h"
#include "tracker/tracker.h"

namespace {

constexpr char kDescription[] =
    "Lends measurement devices: device servers (rpc_server) register here, and autotune requests a device by its key.\n"
    "Without --listen, only this user's processes on this host can connect. Over TCP, members of the farm can, each\n"
    "with its own join file.";
constexpr char kFooter[] =
    "Examples:\n"
    "  rpc_tracker                                        serves this user on this host\n"
    "  rpc_tracker invite board1 --role server > board1.join\n"
    "  rpc_tracker invite alice --role client > alice.join\n"
    "  rpc_tracker invite bob --role client --join admin.join > bob.join\n"
    "                                                     from another host, as an administrator\n"
    "  rpc_tracker --listen 0.0.0.0:9190                  serves the members\n"
    "  rpc_tracker --http 127.0.0.1:9191                  also serves a page with the devices and who waits\n"
    "  rpc_tracker status                                 shows devices, leases and queue\n"
    "  rpc_tracker drain 'pi4-*' --for 2h --note 'new fans'\n"
    "                                                lends these devices to nobody for two hours\n"
    "  rpc_tracker release 1a2b3c4d                  takes the device of this lease back\n"
    "Exit codes: 0 ended by Ctrl-C or SIGTERM, or a command succeeded; 1 could not start, or no tracker answers; 2 "
    "wrong "
    "usage.";

int Fail(const autotune::Error& error) { return autotune::tools::PrintError(error, 1); }
int UsageError(const autotune::Error& error) { return autotune::tools::PrintError(error, 2); }

struct ListenOptions {
  std::vector<std::string> listen, advertise;
  std::string state, power_cycle, power_cycle_after = "5m", http;
};

int ShowStatus(const autotune::tools::TrackerChoice& choice, const std::string& key, bool json, bool watch) {
  const auto address = choice.Find();
  if (!address) return Fail(address.error());
  if (watch) {
    autotune::tools::WatchStatus(*address, key, json);
    return 0;
  }
  const auto reply = autotune::rpc::QueryStatus(*address, key);
  if (!reply) return Fail(reply.error());
  const std::string text = json ? autotune::ToJson(*reply).Dump() + "\n" : autotune::tools::StatusText(*reply);
  fputs(text.c_str(), stdout);
  return 0;
}

// Returns the endpoints at which the tracker listens: those of --listen, and a socket for this user's own commands.
autotune::Result<std::vector<std::string>> EndpointsOf(const ListenOptions& options) {
  std::vector<std::string> endpoints;
  bool has_socket = false;
  for (const std::string& text : options.listen) {
    endpoints.push_back(TRY_NOTE(autotune::rpc::NormalizeEndpoint(text), "--listen"));
    has_socket |= !autotune::rpc::IsTcp(endpoints.back());
  }
  if (has_socket) return endpoints;
  const std::string socket =
      options.state.empty() ? autotune::tools::DefaultTrackerSocket() : options.state + "/socket";
  TRY(autotune::MakePrivateFolder(autotune::FolderOf(socket)));
  std::error_code ignored;
  endpoints.push_back("ipc://" + std::filesystem::absolute(socket, ignored).string());
  return endpoints;
}

int Listen(const ListenOptions& options) {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGHUP, SIG_IGN);  // outlives the terminal that it was started from
  const auto after = autotune::tools::ParseDuration("--power-cycle-after", options.power_cycle_after);
  if (!after) return UsageError(after.error());
  const auto endpoints = EndpointsOf(options);
  if (!endpoints) return Fail(endpoints.error());
  autotune::TrackerOptions tracker{.endpoints = *endpoints, .advertise = {}, .state_folder = options.state};
  for (const std::string& text : options.advertise) {
    const auto endpoint = autotune::rpc::NormalizeEndpoint(text);
    if (!endpoint) return Fail(autotune::Prefixed("--advertise: ", endpoint.error()));
    tracker.advertise.push_back(*endpoint);
  }
  if (options.state.empty()) tracker.state_folder = autotune::tools::DefaultTrackerState();
  autotune::tools::EventLog log("rpc_tracker");
  tracker.on_note = [&log](const std::string& line) { log.Write(line); };
  tracker.on_event = [&log](const autotune::rpc::FarmEvent& event) {
    log.Write(Text(event));
    if (!event.help.empty()) log.Write("to help: " + event.help);
  };
  autotune::Loop loop;
  std::unique_ptr<autotune::tools::FarmPage> page;
  tracker.other_bytes = [&page] { return page ? page->Memory() : 0; };
  const auto started = autotune::Tracker::Start(loop, tracker);
  if (!started) return Fail(started.error());
  // Commands find the socket in the folder.
  for (const std::string& endpoint : (*started)->endpoints()) {
    if (autotune::rpc::IsTcp(endpoint)) continue;
    const autotune::Status kept =
        autotune::ReplaceFile(autotune::tools::SocketFile(tracker.state_folder), endpoint + "\n");
    if (!kept) return Fail(kept.error());
    break;
  }
  std::optional<autotune::tools::PowerSwitch> power;
  if (!options.power_cycle.empty()) {
    power.emplace(loop, autotune::tools::PowerSwitch::Options{.command = options.power_cycle,
                                                              .cycle = {.after_ms = *after},
                                                              .silences = [&] { return (*started)->Silences(); },
                                                              .log = tracker.on_note});
  }
  if (!options.http.empty()) {
    auto shown = autotune::tools::FarmPage::Start(loop, **started,
                                                  {.address = options.http,
                                                   .state_folder = tracker.state_folder,
                                                   .version = AUTOTUNE_VERSION,
                                                   .log = tracker.on_note});
    if (!shown) return Fail(autotune::Prefixed("--http: ", shown.error()));
    page = std::move(*shown);
  }
  auto signals = loop.OnSignals({SIGINT, SIGTERM}, [&](int) { loop.Stop(); });
  for (const std::string& endpoint : (*started)->endpoints()) {
    printf("rpc_tracker: listening at %s, for %s\n", endpoint.c_str(),
           autotune::rpc::IsTcp(endpoint) ? "members of the farm" : "this user");
  }
  if (page) {
    printf("rpc_tracker: page at %s%s\n", page->Url().c_str(),
           page->is_local() ? "" : ", for viewers with a token; HTTP is not encrypted");
  }
  if (fflush(stdout) != 0) return 0;  // nobody learns the address; WithOutput says so
  loop.Run();
  page.reset();  // before the tracker
  return 0;
}

int Track(int argc, char** argv) {
  autotune::EndWithParent();
  ListenOptions listen;
  autotune::tools::TrackerChoice asked;
  std::string key;
  bool json = false, watch = false;
  CLI::App app(kDescription, "rpc_tracker");
  autotune::tools::WrapHelp(app);
  app.footer(kFooter);
  app.set_version_flag("--version", autotune::tools::FarmVersion("rpc_tracker"),
                       "The version of the program and of its protocol");
  app.add_option("--listen", listen.listen,
                 "HOST:PORT to listen at for members, or the path of a socket; may be repeated. 0.0.0.0 and * mean all "
                 "addresses of this host, port 0 a free one. A socket for this user is always there");
  app.add_option(
      "--advertise", listen.advertise,
      "HOST:PORT of this tracker in join files; may be repeated (default: the addresses that it listens at)");
  app.add_option("--state", listen.state,
                 "Folder that keeps members, epoch and known keys over restarts (default: in ~/.local/state)");
  CLI::Option* power_cycle = app.add_option(
      "--power-cycle", listen.power_cycle,
      "Shell command that switches a member's power off and on. It runs when none of the member's servers has reported "
      "for 5 minutes, again after 15 and 45 more, three times in 24 hours at most; not after a server's end or a "
      "drain, "
      "and not if all members are silent. $AUTOTUNE_MEMBER, $AUTOTUNE_KEY and $AUTOTUNE_ADDRESS tell whose");
  app.add_option("--power-cycle-after", listen.power_cycle_after,
                 "Silence before the first --power-cycle (default: 5m)")
      ->needs(power_cycle);
  app.add_option("--http", listen.http,
                 "Serve a live page, metrics for Prometheus (/metrics) and /healthz at this IP:PORT, such as "
                 "127.0.0.1:9191. Readers on this host need no token, others one of `invite --role viewer`");
  CLI::App* status = app.add_subcommand("status", "Show devices, leases and queue of a running tracker");
  autotune::tools::AddAdminOptions(*status, asked);
  status->add_option("--key", key, "Only devices of this key");
  status->add_flag("--json", json, "Print one line of JSON");
  status->add_flag("--watch", watch, "Print it again whenever it changes, until Ctrl-C");
  const auto member_commands = autotune::tools::AddMemberCommands(app);
  const autotune::tools::TrackerCommands commands(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return autotune::tools::EndParsing(app, error, UsageError);
  }
  if (!app.get_subcommands().empty()) {
    const autotune::Status given = autotune::tools::RefuseGiven(
        app, {"--listen", "--advertise", "--state", "--power-cycle", "--power-cycle-after", "--http"},
        "a command does not start a tracker");
    if (!given) return UsageError(given.error());
  }
  if (status->parsed()) return ShowStatus(asked, key, json, watch);
  for (const autotune::tools::Subcommand& command : member_commands)
    if (command.app->parsed()) return command.run();
  if (commands.Given()) {
    if (const autotune::Status right = commands.Check(); !right) return UsageError(right.error());
    const autotune::Status done = commands.Run();
    return done ? 0 : Fail(done.error());
  }
  return Listen(listen);
}

}  // namespace

int main(int argc, char** argv) {
  autotune::tools::KeepStandardDescriptors();
  autotune::tools::ReturnMemory();
  autotune::tools::AllowManyDescriptors();
  return autotune::tools::Guarded([&] { return autotune::tools::WithOutput(Track(argc, argv)); });
}
