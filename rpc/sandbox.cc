#include "rpc/sandbox.h"

#include <unistd.h>

#include "rpc/file_access.h"
#include "rpc/runner_user.h"
#include "support/cpus.h"

namespace autotune::rpc {
namespace {

constexpr char kSwitchedOff[] = "--sandbox=off";
constexpr char kKernelHint[] = "use a kernel that has it";

SandboxLayer OwnUser(const SandboxOptions& options, Restriction restriction) {
  SandboxLayer layer{"own user", false, "", ""};
  if (!options.user) {
    const bool kernels = restriction == Restriction::kKernels;
    layer.text = kernels ? "the server does not run as root" : "a driver's device files may be root's";
    layer.hint = kernels ? "start the server as root" : "name a user that may open them with --runner-uid";
    return layer;
  }
  constexpr int kRunners = 3, kOtherThreads = 8;  // active, spare, dying; beside the threads of a kernel
  const auto number = static_cast<uid_t>(*options.user);
  const Status became = BecomeUser(number, kRunners * (MostThreads() + kOtherThreads));
  layer.on = became.ok();
  layer.text = became.ok() ? "user " + std::to_string(number) : became.error().Text();
  if (became.ok()) return layer;
  layer.hint = geteuid() != 0 ? "start the server as root" : "start it where further users exist, not in a container";
  return layer;
}

SandboxLayer Files(Restriction restriction) {
  const Result<std::string> restricted = RestrictFiles(restriction);
  if (!restricted.ok()) return {"files", false, restricted.error().Text(), kKernelHint};
  return {"files", true,
          *restricted + (restriction == Restriction::kKernels
                             ? ": reads /proc/self and /sys/devices/system/cpu, writes nothing"
                             : ": writes only devices, temporary files and caches"),
          ""};
}

SandboxLayer SystemCalls(Restriction restriction) {
  const Status restricted = RestrictSystemCalls(restriction);
  if (!restricted.ok())
    return {"system calls", false, restricted.error().Text(),
            CanRestrictSystemCalls() ? kKernelHint : "use a build without sanitizers, for a machine that has filters"};
  return {"system calls", true,
          restriction == Restriction::kKernels  ? "seccomp: those of kernels; any other ends the candidate"
          : restriction == Restriction::kDriver ? "seccomp: refuses processes, sockets, and all that no driver needs"
                                                : "seccomp: refuses sockets, and all that no compiler needs",
          ""};
}

}  // namespace

std::vector<SandboxLayer> EnterSandbox(const SandboxOptions& options, Restriction restriction) {
  if (options.mode == SandboxMode::kOff) {
    const std::string hint = "start the server without --sandbox=off";
    return {{"own user", false, kSwitchedOff, hint},
            {"files", false, kSwitchedOff, hint},
            {"system calls", false, kSwitchedOff, hint}};
  }
  // Each layer forbids what the ones before it need.
  std::vector<SandboxLayer> layers = {OwnUser(options, restriction)};
  layers.push_back(Files(restriction));
  layers.push_back(SystemCalls(restriction));
  return layers;
}

std::string MissingLayers(const std::vector<SandboxLayer>& layers) {
  std::string missing;
  for (const SandboxLayer& layer : layers) {
    if (layer.on) continue;
    missing += (missing.empty() ? "" : "; ") + layer.name + ": " + layer.text;
    if (!layer.hint.empty()) missing += " (" + layer.hint + ")";
  }
  return missing;
}

Status CheckStrict(const std::vector<SandboxLayer>& layers) {
  const std::string missing = MissingLayers(layers);
  return missing.empty() ? Status() : Err("--sandbox=strict: the runner lacks ", missing);
}

}  // namespace autotune::rpc
