// The layers that confine a runner, beside its limits (rpc/runner.cc) and the watch over its memory
// (rpc/runner_pool.h): a user of its own, the files it may open, and the system calls it may make. docs/wire.md has the
// threat model.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "rpc/system_calls.h"
#include "support/fields.h"

namespace autotune {
namespace rpc {
enum class SandboxMode {
  kStrict,  // a runner that lacks a layer does not start
  kOn,      // with all layers that this machine has
  kOff,     // with none
};
}
AUTOTUNE_ENUM(rpc::SandboxMode, "strict", "on", "off")
}  // namespace autotune

namespace autotune::rpc {

struct SandboxLayer {
  std::string name;  // "own user"
  bool on = false;
  std::string text;  // what holds: "user 70000"; if it is off, why: "the server does not run as root"
  std::string hint;  // what would switch it on; empty if nothing does
  AUTOTUNE_FIELDS(name, on, text, hint)
};

struct SandboxOptions {
  SandboxMode mode = SandboxMode::kOn;
  std::optional<int64_t> user;  // number of the user that the runner becomes
  AUTOTUNE_FIELDS(mode, user)
};

// Puts this process into the sandbox, for good. To be called on the main thread, before candidates and the threads that
// run them. Returns the layers in a fixed order.
std::vector<SandboxLayer> EnterSandbox(const SandboxOptions& options, Restriction restriction);

// Names each layer that is off, with its cause and hint. Empty if all are on.
std::string MissingLayers(const std::vector<SandboxLayer>& layers);
// Returns an error with MissingLayers.
Status CheckStrict(const std::vector<SandboxLayer>& layers);

}  // namespace autotune::rpc
