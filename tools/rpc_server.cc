// rpc_server offers this machine's CPU, or another device of it, for measurements. One process talks to the tracker and
// to clients; child processes (--runner) run the candidates.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <sstream>

#include "rpc/farm_event.h"
#include "rpc/runner.h"
#include "rpc/runner_user.h"
#include "rpc/sandbox_probe.h"
#include "rpc/server.h"
#include "runtime/device.h"
#include "support/cpus.h"
#include "support/machine_description.h"
#include "support/state_folder.h"
#include "support/subprocess.h"
#include "tools/autotune/usage.h"
#include "tools/descriptors.h"
#include "tools/duration.h"
#include "tools/event_log.h"
#include "tools/guarded_main.h"
#include "tools/install_service.h"
#include "tools/return_memory.h"
#include "tools/show_sandbox.h"
#include "tools/tracker_choice.h"

namespace {

constexpr char kDescription[] =
    "Offers this machine's CPU, or another device of it, to a tracker, so that autotune can measure kernels on it.\n"
    "Candidates run in a child process, which is replaced when one crashes or hangs.\n"
    "Clients of the farm run code here: those of this user or, with a join file, its members, within a sandbox.";
constexpr char kFooter[] =
    "Examples:\n"
    "  rpc_tracker & rpc_server --key cpu                       for this user on this host\n"
    "  ssh board rpc_server --join - --key rpi4 < board.join    a board of a farm\n"
    "  rpc_server --join gpu.join --key gpu --device cuda\n"
    "  rpc_server --join b.join --key riscv --runner-prefix 'qemu-riscv64 -L /usr/riscv64-linux-gnu'\n"
    "`rpc_tracker invite NAME --role server > NAME.join` makes a join file.\n"
    "`rpc_server doctor` shows how candidates are confined on this machine.\n"
    "`rpc_server install-service --join board.join --key rpi4` makes a service of systemd of it.\n"
    "Ctrl-C and SIGTERM end a server once the candidate that runs has ended and its client has the result; a second "
    "one ends it at once.\n"
    "Exit codes: 0 ended by Ctrl-C, SIGTERM or --idle-exit; 1 could not start, or doctor --sandbox=strict misses a "
    "layer; 2 wrong usage.\n"
    "AUTOTUNE_LOG=info shows more; AUTOTUNE_HOST_LOCK names the file of the lock that keeps timings undisturbed.";

std::vector<std::string> Words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

int Missing(const char* option, const char* hint) {
  return autotune::tools::PrintError(autotune::WithHint(autotune::Err(option, " is missing"), hint), 2);
}

autotune::Status SetDevice(const std::string& device, autotune::rpc::RunnerOptions& runner,
                           autotune::rpc::ServerOptions& options) {
  if (device.empty()) return {};
  auto parsed = autotune::DeviceChoiceFromText(device);
  if (!parsed) return autotune::Err("--device: ", parsed.error().Text());
  runner.device = *parsed;
  options.device = parsed->type == kDLCPU ? "" : device;
  return {};
}

// `missing` names the layers that the sandbox of the runners lacks.
int RunWithLog(autotune::rpc::ServerOptions options, const std::string& missing) {
  autotune::tools::EventLog log("rpc_server");
  if (!missing.empty()) log.Write("runners lack a part of the sandbox: " + missing);
  // The server of a local search ends with its standard input. It shares the terminal with the search, which says
  // itself what it waits for.
  if (!options.end_with_stdin) options.on_event = [&log](const std::string& line) { log.Write(line); };
  signal(SIGPIPE, SIG_IGN);
  signal(SIGHUP, SIG_IGN);  // outlives the terminal that it was started from
  autotune::Status status = autotune::rpc::RunServer(options);
  return status ? 0 : autotune::tools::PrintError(status.error(), 1);
}

// What the command line says.
struct Arguments {
  autotune::rpc::ServerOptions server;
  autotune::rpc::RunnerOptions runner;
  autotune::tools::TrackerChoice tracker;
  std::string cores, prefix, device, idle_exit;
  double memory_gib = 0, package_gib = 1;
  bool is_runner = false, shared_host = false, doctor = false;
  std::optional<autotune::tools::InstallService> service;
};

void AddSandboxOptions(CLI::App& app, Arguments& arguments) {
  using autotune::rpc::SandboxMode;
  const std::map<std::string, SandboxMode> modes = {
      {"strict", SandboxMode::kStrict}, {"on", SandboxMode::kOn}, {"off", SandboxMode::kOff}};
  app.add_option_function<std::string>(
         "--sandbox",
         [modes, &mode = arguments.runner.sandbox.mode](const std::string& word) { mode = modes.at(word); },
         "strict: do not start unless runners have every layer of the sandbox; on: with the layers that this machine "
         "has; off: without (default: on)")
      ->check(CLI::IsMember(modes))
      ->option_text("strict|on|off");
  app.add_option("--runner-uid", arguments.runner.sandbox.user,
                 "Number of the user that runners become, if this server runs as root (default: the first free one "
                 "from 70000; with --device, none)")
      ->check(CLI::Range(int64_t{1}, int64_t{UINT32_MAX - 1}));
  app.add_flag("--show-sandbox", arguments.runner.shows_sandbox)->group("");
  app.add_subcommand("doctor", "Show the layers of the sandbox that runners have on this machine, and end")
      ->fallthrough()
      ->callback([&arguments] { arguments.doctor = true; });
}

void AddOptions(CLI::App& app, Arguments& arguments) {
  autotune::rpc::ServerOptions& options = arguments.server;
  autotune::tools::AddTrackerOptions(app, arguments.tracker);
  app.add_option("--key", options.key, "Name by which clients ask for this kind of device, for example rpi4");
  app.add_option(
      "--device", arguments.device,
      "Device that kernels run on, such as cuda, cuda:1 or opencl, or cuda:UUID or opencl:NAME, as `autotune "
      "devices` lists them (default: the CPU)");
  app.add_option("--cores", arguments.cores, "Cores that kernels run on, for example 0-3 or 0,2 (default: all)");
  app.add_option("--listen", options.listen,
                 "HOST:PORT for clients, or a socket (default: all addresses of this host at a port that this server "
                 "keeps; on the tracker's host, a socket beside the tracker's)");
  app.add_option(
      "--advertise", options.advertise,
      "HOST:PORT by which clients reach this server; may be repeated (default: the addresses that it listens "
      "at)");
  app.add_option("--runner-prefix", arguments.prefix, "Command that wraps the runner: an emulator, taskset, a sandbox");
  app.add_option(
         "--machine", options.machine,
         "Folder with proc/cpuinfo and sys/devices/system/cpu of the machine on which candidates run, if that is "
         "another one than this host, as --runner-prefix may make it (default: this host's)")
      ->type_name("DIR");
  app.add_option("--package-cache", arguments.package_gib,
                 "GiB of packages that clients have sent, which this server keeps in its --state folder, so that their "
                 "next sessions need not send them again; 0: none (default: 1)")
      ->check(CLI::Range(0.0, 1024.0));
  app.add_option("--memory-limit", arguments.memory_gib, "GiB that a runner may use (default: half of the machine's)");
  app.add_flag("--shared-host", arguments.shared_host,
               "Measure without the lock of this host, or of its GPU: builds, searches and other measurements there do "
               "not pause, "
               "and may disturb the times");
  app.add_option("--idle-exit", arguments.idle_exit,
                 "Time without a lease after which this server ends: 90s, 10m or 2h (default: it does not)");
  app.add_option("--state", options.state,
                 "Folder that keeps this server's id over restarts (default: in ~/.local/state)");
  app.add_flag("--end-with-stdin", options.end_with_stdin, "End when standard input ends");
  app.add_flag("--runner", arguments.is_runner, "Run candidates (rpc_server starts such processes itself)")->group("");
  AddSandboxOptions(app, arguments);
  arguments.service.emplace(app);
}

autotune::Status CheckMachine(const std::string& folder) {
  if (folder.empty() || autotune::DescribeMachine(folder).IsKnown()) return {};
  return autotune::Err("--machine ", folder, ": ", folder, "/proc/cpuinfo describes no machine");
}

autotune::Status SetCores(Arguments& arguments) {
  if (arguments.cores.empty()) return {};
  auto parsed = autotune::rpc::ParseCores(arguments.cores);
  if (!parsed) return autotune::Err("--cores: ", parsed.error().Text());
  const std::vector<int> allowed = autotune::AllowedCpus();
  for (int core : *parsed) {
    if (std::find(allowed.begin(), allowed.end(), core) == allowed.end())
      return autotune::Err("--cores ", arguments.cores, ": this machine has no core ", core,
                           " that this program may use");
  }
  arguments.server.cores = arguments.runner.cores = *parsed;
  return {};
}

autotune::Status SetIdleExit(Arguments& arguments) {
  if (!arguments.idle_exit.empty())
    arguments.server.idle_exit_ms = TRY(autotune::tools::ParseDuration("--idle-exit", arguments.idle_exit));
  return {};
}

// Sets what needs more than CLI11's own checks.
autotune::Status SetValues(Arguments& arguments) {
  TRY(SetCores(arguments));
  TRY(SetDevice(arguments.device, arguments.runner, arguments.server));
  TRY(SetIdleExit(arguments));
  return CheckMachine(arguments.server.machine);
}

// Sets the command line of runners, and the user that they become.
void SetRunnerCommand(Arguments& arguments, std::optional<autotune::rpc::RunnerUser>& user) {
  using autotune::rpc::SandboxMode;
  autotune::rpc::ServerOptions& options = arguments.server;
  autotune::rpc::SandboxOptions& sandbox = arguments.runner.sandbox;
  if (!sandbox.user && sandbox.mode != SandboxMode::kOff && arguments.device.empty()) {
    if (auto taken = autotune::rpc::RunnerUser::Take(); taken.ok()) user = std::move(*taken);
    if (user) sandbox.user = user->number();
  }
  auto self = autotune::FindOwnExecutable("rpc_server");
  options.runner_command = Words(arguments.prefix);
  options.wrapped_runner = !options.runner_command.empty();
  options.runner_command.push_back(self ? *self : "/proc/self/exe");
  options.runner_command.push_back("--runner");
  const double gib = static_cast<double>(arguments.runner.memory_bytes) / (1 << 30);
  options.runner_command.push_back("--memory-limit=" + std::to_string(gib));
  options.runner_command.push_back("--sandbox=" + std::string(autotune::ToText(sandbox.mode)));
  if (sandbox.user) options.runner_command.push_back("--runner-uid=" + std::to_string(*sandbox.user));
  if (!arguments.cores.empty()) options.runner_command.push_back("--cores=" + arguments.cores);
  if (!arguments.device.empty()) options.runner_command.push_back("--device=" + arguments.device);
}

int Run(Arguments& arguments) {
  using autotune::tools::PrintError;
  if (const autotune::Status set = SetValues(arguments); !set) return PrintError(set.error(), 2);
  const double half = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 2;
  arguments.runner.memory_bytes =
      static_cast<int64_t>(arguments.memory_gib > 0 ? arguments.memory_gib * (1 << 30) : half);
  arguments.server.memory_bytes = arguments.runner.memory_bytes;
  arguments.server.package_bytes = static_cast<int64_t>(arguments.package_gib * (1 << 30));
  if (arguments.is_runner) return autotune::rpc::RunRunner(arguments.runner);

  autotune::tools::AllowManyDescriptors();
  autotune::tools::ReturnMemory();  // not in runners, which measure kernels as any other program would run them
  autotune::rpc::ServerOptions& options = arguments.server;
  std::optional<autotune::rpc::RunnerUser> user;
  const bool strict = arguments.runner.sandbox.mode == autotune::rpc::SandboxMode::kStrict;
  if (arguments.doctor) {
    SetRunnerCommand(arguments, user);
    return autotune::tools::ShowSandbox(options.runner_command, options.wrapped_runner, strict);
  }
  if (options.key.empty()) return Missing("--key", "give the name by which clients ask for this device");
  if (!autotune::rpc::IsKey(options.key))
    return PrintError(autotune::Err("--key ", options.key, ": ", autotune::rpc::kKeyRule), 2);
  if (arguments.service->Given()) {
    const autotune::Status installed = arguments.service->Run(options.key, arguments.tracker.join);
    return installed ? 0 : PrintError(installed.error(), 1);
  }
  auto tracker = arguments.tracker.Find();
  if (!tracker) return PrintError(tracker.error(), 1);
  options.tracker = std::move(*tracker);
  SetRunnerCommand(arguments, user);
  // A driver takes seconds to start, and a local search has no operator who reads the log.
  std::string missing;
  if (strict || (arguments.device.empty() && !options.end_with_stdin)) {
    auto layers = autotune::rpc::ProbeSandbox(options.runner_command, options.wrapped_runner);
    const autotune::Status all = layers.ok() ? autotune::rpc::CheckStrict(*layers) : autotune::Status(layers.error());
    if (strict && !all.ok()) return PrintError(all.error(), 1);
    if (layers.ok()) missing = autotune::rpc::MissingLayers(*layers);
  }
  options.host_lock = !arguments.shared_host;
  // The servers of local searches are many and short-lived; nothing refers to their ids later.
  if (options.state.empty() && !options.end_with_stdin) options.state = autotune::StateFolder();
  return RunWithLog(options, missing);
}

int Serve(int argc, char** argv) {
  autotune::EndWithParent();
  Arguments arguments;
  CLI::App app(kDescription, "rpc_server");
  autotune::tools::WrapHelp(app);
  app.footer(kFooter);
  app.set_version_flag("--version", autotune::tools::FarmVersion("rpc_server"),
                       "The version of the program and of its protocol");
  AddOptions(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return autotune::tools::EndParsing(
        app, error, [](const autotune::Error& refused) { return autotune::tools::PrintError(refused, 2); });
  }
  return Run(arguments);
}

}  // namespace

int main(int argc, char** argv) {
  autotune::tools::KeepStandardDescriptors();
  return autotune::tools::Guarded([&] { return autotune::tools::WithOutput(Serve(argc, argv)); });
}
