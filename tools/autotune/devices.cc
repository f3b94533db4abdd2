// `autotune devices` lists the devices on which kernels can be tuned.
#include <cstdio>

#include "rpc/client.h"
#include "rpc/transport.h"
#include "support/json.h"
#include "target/target.h"
#include "tools/autotune/command.h"
#include "tools/autotune/console.h"
#include "tools/autotune/gpus.h"
#include "tools/autotune/host.h"
#include "tools/autotune/text.h"
#include "tools/farm_status.h"

namespace autotune::tools {
namespace {

struct DevicesOptions {
  std::string tracker, key;
};

Result<int> ShowDevices(const DevicesOptions& options) {
  if (!options.tracker.empty()) {
    std::string endpoint = TRY_NOTE(rpc::NormalizeEndpoint(options.tracker), "--tracker");
    rpc::StatusReply status = TRY(rpc::QueryStatus(endpoint, options.key));
    if (Console::Get().json()) {
      std::printf("%s\n", ToJson(status).Dump().c_str());
    } else {
      PrintStatus(status);
    }
    return kExitOk;
  }
  Target target = TRY(Target::Parse("cpu"));
  HostFacts host = FactsOfHost();
  const Gpus gpus = FindGpus();
  if (Console::Get().json()) {
    Json line;
    line["key"] = "local";
    line["model"] = host.model;
    line["cores"] = host.usable_cores;
    line["memory_bytes"] = host.memory_bytes;
    line["target"] = target.Text();
    Json::Array list;
    for (const Gpu& gpu : gpus.found) list.push_back(ToJson(gpu));
    line["gpus"] = std::move(list);
    std::printf("%s\n", line.Dump().c_str());
    return kExitOk;
  }
  std::printf("this machine: %s, %s, %.1f GB\n  --target '%s'\n", host.model.c_str(),
              Counted(host.usable_cores, "core").c_str(), static_cast<double>(host.memory_bytes) / 1e9,
              target.Text().c_str());
  for (const Gpu& gpu : gpus.found) std::printf("%s\n  %s\n", GpuText(gpu).c_str(), GpuTargetText(gpu).c_str());
  for (const std::string& reason : gpus.missing) std::printf("%s\n", reason.c_str());
  return kExitOk;
}

}  // namespace

Command DevicesCommand(CLI::App& root) {
  auto options = std::make_shared<DevicesOptions>();
  CLI::App* app = root.add_subcommand("devices", "Lists the devices that can be tuned on: this machine, or a farm's.");
  app->add_option("--tracker", options->tracker,
                  "HOST:PORT of an rpc_tracker, whose devices are listed; default AUTOTUNE_TRACKER")
      ->envname("AUTOTUNE_TRACKER");
  app->add_option("--key", options->key, "only devices of this key, with --tracker");
  AddOutput(*app, "the machine and its GPUs, or the farm's status");
  return {app, [options] { return ShowDevices(*options); }};
}

}  // namespace autotune::tools
