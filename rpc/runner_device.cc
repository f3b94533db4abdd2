#include "rpc/runner_device.h"

#include <cstdlib>

#include "runtime/thread_pool.h"
#include "support/cpu_features.h"

namespace autotune::rpc {
namespace {

// Enters the sandbox. Returns an error if a layer is missing that must be there.
Result<std::vector<SandboxLayer>> Confined(const RunnerOptions& options, Restriction restriction) {
  HostCpuFeatures();  // it makes a system call that the sandbox forbids
  ThreadPool::MoveOnlyOneself();
  std::vector<SandboxLayer> layers = EnterSandbox(options.sandbox, restriction);
  if (options.sandbox.mode == SandboxMode::kStrict && !options.shows_sandbox) TRY(CheckStrict(layers));
  return layers;
}

}  // namespace

Result<std::vector<SandboxLayer>> ConfinedWithDevice(const RunnerOptions& options, Device& device) {
  TRY(device.Synchronize());
  device.State();
  if (device.dl().device_type != kDLCUDA) return std::vector<SandboxLayer>();
  return Confined(options, Restriction::kDriver);
}

Result<PreparedRunner> PrepareRunner(const RunnerOptions& options) {
  PreparedRunner prepared;
  if (options.device.type == kDLCPU) {
    prepared.layers = TRY(Confined(options, Restriction::kKernels));
    return prepared;
  }
  // Unless the environment says otherwise, the drivers' compilers do not cache their results.
  setenv("POCL_KERNEL_CACHE", "0", /*overwrite=*/0);
  setenv("CUDA_CACHE_DISABLE", "1", /*overwrite=*/0);
  setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0);  // invalid code fails when it is loaded, not when it runs
  // OpenCL's driver may start threads at any time, so the sandbox comes before them.
  if (options.device.type == kDLOpenCL) prepared.layers = TRY(Confined(options, Restriction::kCompiler));
  prepared.device = TRY(OpenChosenDevice(options.device));
  if (options.shows_sandbox && options.device.type == kDLCUDA)
    prepared.layers = TRY(ConfinedWithDevice(options, *prepared.device));
  return prepared;
}

}  // namespace autotune::rpc
