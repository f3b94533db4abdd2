// The runner: the child process that loads artifacts and runs them, one candidate at a time. Its parent, the device
// server, controls it through a socket pair. A runner may crash or hang at any moment; the parent then replaces it.
// Besides its main thread, a runner has the kernels' thread pool, threads that load artifacts ahead (rpc/load_ahead.h),
// and a thread that ends the process when the parent is gone.
#pragma once
#include <cstdint>
#include <vector>

#include "rpc/measure.h"
#include "rpc/sandbox.h"
#include "runtime/device.h"

namespace autotune::rpc {

inline constexpr int kRunnerDescriptor = 3;  // the runner's end of the socket pair
// The largest file that a runner on the CPU may make. It makes memory files for artifacts.
inline constexpr int64_t kRunnerFileBytes = kMaxUploadedBlobBytes;

struct RunnerOptions {
  std::vector<int> cores;    // cores that kernels run on; empty: all
  int64_t memory_bytes = 0;  // limit of the process's data, only for runners on the CPU; 0: none
  DeviceChoice device;       // device that kernels run on
  SandboxOptions sandbox;
  bool shows_sandbox = false;  // write the layers of the sandbox to standard output, as JSON, and end
};
// Serves requests until the parent closes its end of the socket pair or the device has failed. Returns the exit code of
// the process.
int RunRunner(const RunnerOptions& options);

}  // namespace autotune::rpc
