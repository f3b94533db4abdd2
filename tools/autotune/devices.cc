// `autotune devices` lists the devices on which kernels can be tuned.
#include "rpc/client.h"
#include "service/gpus.h"
#include "support/json.h"
#include "support/shell.h"
#include "support/terminal.h"
#include "target/target.h"
#include "tools/autotune/command.h"
#include "tools/autotune/console.h"
#include "tools/autotune/host.h"
#include "tools/autotune/text.h"
#include "tools/farm_status.h"
#include "tools/tracker_choice.h"

namespace autotune::tools {
namespace {

struct DevicesOptions {
  TrackerChoice tracker;
  std::string key;
};

Result<int> ShowDevices(const DevicesOptions& options) {
  Console& console = Console::Get();
  if (options.tracker.Given() || !options.key.empty() || EnvironmentNamesTracker()) {
    const rpc::Address tracker = TRY(options.tracker.Find());
    rpc::StatusReply status = TRY(rpc::QueryStatus(tracker, options.key));
    console.json() ? console.Result(ToJson(status)) : console.Result(StatusText(status));
    return kExitOk;
  }
  const MachineDescription host = DescribeHost();
  const Target target = TRY(Target::Parse("cpu", &host));
  const Gpus gpus = FindGpus();
  if (console.json()) {
    Json line;
    line["key"] = "local";
    line["model"] = ModelText(host);
    line["cores"] = host.usable_cores;
    line["memory_bytes"] = host.memory_bytes;
    line["target"] = target.Text();
    Json::Array list;
    for (const Gpu& gpu : gpus.found) list.push_back(ToJson(gpu));
    line["gpus"] = std::move(list);
    console.Result(line);
    return kExitOk;
  }
  std::string text = "this machine: " + ModelText(host) + ", " + CountText(host.usable_cores, "core") +
                     Format(", %.1f GB\n", static_cast<double>(host.memory_bytes) / 1e9) + "  --target " +
                     ShellWord(target.Text()) + "\n";
  for (const Gpu& gpu : gpus.found) text += GpuText(gpu) + "\n  " + GpuTargetText(gpu) + "\n";
  for (const std::string& reason : gpus.missing) text += WrapWords(reason, console.WidthOut()) + "\n";
  console.Result(text);
  return kExitOk;
}

}  // namespace

Command DevicesCommand(CLI::App& root) {
  auto options = std::make_shared<DevicesOptions>();
  CLI::App* app = root.add_subcommand("devices", "Lists the devices that can be tuned on: this machine, or a farm's.");
  AddTrackerOptions(*app, options->tracker);
  app->add_option("--key", options->key, "only devices of this key of a farm");
  AddOutput(*app, "the machine and its GPUs, or the farm's status");
  return {app, [options] { return ShowDevices(*options); }};
}

}  // namespace autotune::tools
