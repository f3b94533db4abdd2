#include "tools/show_sandbox.h"

#include <cstdio>

#include "rpc/sandbox_probe.h"
#include "tools/error_lines.h"

namespace autotune::tools {

int ShowSandbox(const std::vector<std::string>& runner_command, bool wrapped, bool strict) {
  Result<std::vector<rpc::SandboxLayer>> layers = rpc::ProbeSandbox(runner_command, wrapped);
  if (!layers.ok()) return PrintError(layers.error(), 1);
  for (const rpc::SandboxLayer& layer : *layers) {
    std::printf("%-13s %-4s %s\n", layer.name.c_str(), layer.on ? "on" : "off", layer.text.c_str());
    if (!layer.on && !layer.hint.empty()) std::printf("%-13s      to switch it on: %s\n", "", layer.hint.c_str());
  }
  const Status all = rpc::CheckStrict(*layers);
  return strict && !all.ok() ? PrintError(all.error(), 1) : 0;
}

}  // namespace autotune::tools
