// rpc_server offers this machine's CPU, or another device of it, for measurements. One process talks to the tracker and
// to clients; child processes (--runner) run the candidates.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <sstream>

#include "rpc/farm_event.h"
#include "rpc/runner.h"
#include "rpc/server.h"
#include "runtime/device.h"
#include "support/cpus.h"
#include "support/state_folder.h"
#include "support/subprocess.h"
#include "tools/autotune/usage.h"
#include "tools/event_log.h"
#include "tools/guarded_main.h"

namespace {

constexpr char kDescription[] =
    "Offers this machine's CPU, or another device of it, to a tracker, so that autotune can measure kernels on it.\n"
    "Candidates run in a child process, which is replaced when one crashes or hangs.\n"
    "WARNING: connections are not authenticated: any user of this host can run code here.";
constexpr char kFooter[] =
    "Examples:\n"
    "  rpc_tracker &\n"
    "  rpc_server --tracker 127.0.0.1:9190 --key rpi4\n"
    "  rpc_server --tracker 127.0.0.1:9190 --key gpu --device cuda\n"
    "  rpc_server --tracker 127.0.0.1:9190 --key riscv --runner-prefix 'qemu-riscv64 -L /usr/riscv64-linux-gnu'\n"
    "A tracker on another host is reached over ssh: ssh -L 9190:127.0.0.1:9190 HOST (and -R for the server's own "
    "port).\n"
    "Exit codes: 0 ended by Ctrl-C or SIGTERM; 1 could not start; 2 wrong usage.\n"
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

int RunWithLog(autotune::rpc::ServerOptions options) {
  autotune::tools::EventLog log("rpc_server");
  // The server of a local search ends with its standard input. It shares the terminal with the search, which says
  // itself what it waits for.
  if (!options.end_with_stdin) options.on_event = [&log](const std::string& line) { log.Write(line); };
  signal(SIGPIPE, SIG_IGN);
  signal(SIGHUP, SIG_IGN);  // outlives the terminal that it was started from
  autotune::Status status = autotune::rpc::RunServer(options);
  return status ? 0 : autotune::tools::PrintError(status.error(), 1);
}

int Serve(int argc, char** argv) {
  autotune::EndWithParent();
  autotune::rpc::ServerOptions options;
  autotune::rpc::RunnerOptions runner;
  std::string cores, prefix, device;
  bool is_runner = false, shared_host = false;
  double memory_gib = 0;

  CLI::App app(kDescription, "rpc_server");
  autotune::tools::WrapHelp(app);
  app.footer(kFooter);
  app.set_version_flag("--version", autotune::tools::FarmVersion("rpc_server"),
                       "The version of the program and of its protocol");
  app.add_option("--tracker", options.tracker, "The tracker's HOST:PORT or ipc socket (default: AUTOTUNE_TRACKER)")
      ->envname("AUTOTUNE_TRACKER");
  app.add_option("--key", options.key, "Name by which clients ask for this kind of device, for example rpi4");
  app.add_option(
      "--device", device,
      "Device that kernels run on, such as cuda, cuda:1 or opencl, or cuda:UUID or opencl:NAME, as `autotune "
      "devices` lists them (default: the CPU)");
  app.add_option("--cores", cores, "Cores that kernels run on, for example 0-3 or 0,2 (default: all)");
  app.add_option("--listen", options.listen, "HOST:PORT or ipc socket for clients (default: a free port of 127.0.0.1)");
  app.add_option("--runner-prefix", prefix, "Command that wraps the runner: an emulator, taskset, a sandbox");
  app.add_option("--memory-limit", memory_gib, "GiB that a runner may use (default: half of the machine's)");
  app.add_flag("--shared-host", shared_host,
               "Measure without the lock of this host, or of its GPU: builds, searches and other measurements there do "
               "not pause, "
               "and may disturb the times");
  app.add_option("--state", options.state,
                 "Folder that keeps this server's id over restarts (default: in ~/.local/state)");
  app.add_flag("--end-with-stdin", options.end_with_stdin, "End when standard input ends");
  app.add_flag("--runner", is_runner, "Run candidates (rpc_server starts such processes itself)")->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return autotune::tools::EndParsing(
        app, error, [](const autotune::Error& refused) { return autotune::tools::PrintError(refused, 2); });
  }

  using autotune::tools::PrintError;
  if (!cores.empty()) {
    auto parsed = autotune::rpc::ParseCores(cores);
    if (!parsed) return PrintError(autotune::Err("--cores: ", parsed.error().Text()), 2);
    const std::vector<int> allowed = autotune::AllowedCpus();
    for (int core : *parsed) {
      if (std::find(allowed.begin(), allowed.end(), core) == allowed.end())
        return PrintError(
            autotune::Err("--cores ", cores, ": this machine has no core ", core, " that this program may use"), 2);
    }
    options.cores = runner.cores = *parsed;
  }
  if (const autotune::Status set = SetDevice(device, runner, options); !set) return PrintError(set.error(), 2);
  double bytes = memory_gib > 0
                     ? memory_gib * (1 << 30)
                     : static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 2;
  runner.memory_bytes = static_cast<int64_t>(bytes);
  if (is_runner) return autotune::rpc::RunRunner(runner);

  if (options.tracker.empty()) return Missing("--tracker", "give rpc_tracker's address, such as 127.0.0.1:9190");
  if (options.key.empty()) return Missing("--key", "give the name by which clients ask for this device");
  if (!autotune::rpc::IsKey(options.key))
    return PrintError(autotune::Err("--key ", options.key, ": ", autotune::rpc::kKeyRule), 2);
  auto self = autotune::FindOwnExecutable("rpc_server");
  options.runner_command = Words(prefix);
  options.wrapped_runner = !options.runner_command.empty();
  options.runner_command.push_back(self ? *self : "/proc/self/exe");
  options.runner_command.push_back("--runner");
  options.runner_command.push_back("--memory-limit=" + std::to_string(bytes / (1 << 30)));
  if (!cores.empty()) options.runner_command.push_back("--cores=" + cores);
  if (!device.empty()) options.runner_command.push_back("--device=" + device);
  options.host_lock = !shared_host;
  // The servers of local searches are many and short-lived; nothing refers to their ids later.
  if (options.state.empty() && !options.end_with_stdin) options.state = autotune::StateFolder();
  return RunWithLog(options);
}

}  // namespace

int main(int argc, char** argv) {
  autotune::tools::KeepStandardDescriptors();
  return autotune::tools::Guarded([&] { return autotune::tools::WithOutput(Serve(argc, argv)); });
}
