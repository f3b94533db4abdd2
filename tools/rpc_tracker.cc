// rpc_tracker grants clients leases on measurement devices.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "rpc/client.h"
#include "rpc/transport.h"
#include "support/json.h"
#include "support/loop.h"
#include "support/subprocess.h"
#include "tools/autotune/usage.h"
#include "tools/descriptors.h"
#include "tools/event_log.h"
#include "tools/farm_status.h"
#include "tools/guarded_main.h"
#include "tools/return_memory.h"
#include "tools/tracker_commands.h"
#include "tracker/tracker.h"

namespace {

constexpr char kDescription[] =
    "Lends measurement devices: device servers (rpc_server) register here, and autotune requests a device by its key.\n"
    "WARNING: connections are not authenticated: any user of this host can take devices, and so run code on them.";
constexpr char kFooter[] =
    "Examples:\n"
    "  rpc_tracker                                   listens at 127.0.0.1:9190\n"
    "  rpc_tracker status                            shows devices, leases and queue\n"
    "  rpc_tracker status --tracker 127.0.0.1:9191 --json\n"
    "  rpc_tracker drain 'pi4-*' --for 2h --note 'new fans'\n"
    "                                                lends these devices to nobody for two hours\n"
    "  rpc_tracker release 1a2b3c4d                  takes the device of this lease back\n"
    "Exit codes: 0 ended by Ctrl-C or SIGTERM, or done; 1 could not start, no tracker answers, or it refuses; 2 wrong "
    "usage.";

int Fail(const autotune::Error& error) { return autotune::tools::PrintError(error, 1); }
int UsageError(const autotune::Error& error) { return autotune::tools::PrintError(error, 2); }

int Track(int argc, char** argv) {
  autotune::EndWithParent();
  std::string host = "127.0.0.1", state, asked = "127.0.0.1:9190", key;
  int port = 9190;
  bool json = false, watch = false;
  CLI::App app(kDescription, "rpc_tracker");
  autotune::tools::WrapHelp(app);
  app.footer(kFooter);
  app.set_version_flag("--version", autotune::tools::FarmVersion("rpc_tracker"),
                       "The version of the program and of its protocol");
  app.add_option("--host", host, "Address to listen at: only 127.0.0.1, or the path of an ipc socket")
      ->capture_default_str();
  app.add_option("--port", port, "Port; 0 takes a free one and prints it")
      ->capture_default_str()
      ->check(autotune::tools::Port());
  app.add_option("--state", state,
                 "File that stores the epoch, which grows with each start of the tracker (default: in ~/.local/state)");
  CLI::App* status = app.add_subcommand("status", "Show devices, leases and queue of a running tracker");
  status->add_option("--tracker", asked, "The tracker's HOST:PORT or ipc socket")
      ->capture_default_str()
      ->envname("AUTOTUNE_TRACKER");
  status->add_option("--key", key, "Only devices of this key");
  status->add_flag("--json", json, "Print one line of JSON");
  status->add_flag("--watch", watch, "Print it again whenever it changes, until Ctrl-C");
  const autotune::tools::TrackerCommands commands(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return autotune::tools::EndParsing(app, error, UsageError);
  }
  if (commands.Given()) {
    const std::string why = "this command asks a running tracker, which --tracker names";
    const autotune::Status given = autotune::tools::RefuseGiven(app, {"--host", "--port", "--state"}, why);
    if (!given) return UsageError(given.error());
    if (const autotune::Status right = commands.Check(); !right) return UsageError(right.error());
    const autotune::Status done = commands.Run();
    return done ? 0 : Fail(done.error());
  }
  if (status->parsed()) {
    const autotune::Status given = autotune::tools::RefuseGiven(app, {"--host", "--port", "--state"},
                                                                "status asks a running tracker, which --tracker names");
    if (!given) return UsageError(given.error());
    auto normal = autotune::rpc::NormalizeEndpoint(asked);
    if (!normal) return Fail(normal.error());
    if (watch) {
      autotune::tools::WatchStatus(*normal, key, json);
      return 0;
    }
    auto reply = autotune::rpc::QueryStatus(*normal, key);
    if (!reply) return Fail(reply.error());
    const std::string text = json ? autotune::ToJson(*reply).Dump() + "\n" : autotune::tools::StatusText(*reply);
    fputs(text.c_str(), stdout);
    return 0;
  }

  signal(SIGPIPE, SIG_IGN);
  signal(SIGHUP, SIG_IGN);  // outlives the terminal that it was started from
  bool ipc = host.starts_with("/") || host.starts_with("ipc://");
  auto endpoint = autotune::rpc::NormalizeEndpoint(ipc ? host : host + ":" + std::to_string(port));
  if (!endpoint) return Fail(endpoint.error());
  autotune::tools::EventLog log("rpc_tracker");
  autotune::TrackerOptions options{*endpoint, state,
                                   [&log](const autotune::rpc::FarmEvent& event) { log.Write(Text(event)); }};
  if (state.empty()) options.state_file = autotune::DefaultTrackerState(*endpoint);
  autotune::Loop loop;
  auto tracker = autotune::Tracker::Start(loop, options);
  if (!tracker) return Fail(tracker.error());
  auto signals = loop.OnSignals({SIGINT, SIGTERM}, [&](int) { loop.Stop(); });
  printf("rpc_tracker: listening at %s; unauthenticated: any user of this host can run code on the devices\n",
         (*tracker)->endpoint().c_str());
  if (fflush(stdout) != 0) return 0;  // nobody learns the address; WithOutput says so
  loop.Run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  autotune::tools::KeepStandardDescriptors();
  autotune::tools::ReturnMemory();
  autotune::tools::AllowManyDescriptors();
  return autotune::tools::Guarded([&] { return autotune::tools::WithOutput(Track(argc, argv)); });
}
