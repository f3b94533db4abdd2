// Kernels for NVIDIA's GPUs on this machine: the LLVM module that the emitter of PTX made, compiled for the host.
// Special registers are read from memory, a barrier switches to the next thread, and threads are fibers, which run in a
// random order from barrier to barrier. For tests.
#pragma once
#include <memory>
#include <vector>

#include "codegen/codegen.h"
#include "ir/interp.h"
#include "support/result.h"

namespace autotune::test {

class GpuOnHost {
 public:
  // `object` was compiled for a target of kind cuda with keep_assembly.
  static Result<std::unique_ptr<GpuOnHost>> Make(const KernelObject& object);
  virtual ~GpuOnHost() = default;
  // Runs the kernel, with its preparation, on copies of `args`, the parameters of `f`; outputs come back in `args`.
  // Errors: threads of a block that wait while others have ended.
  virtual Status Run(const PrimFunc& f, std::vector<InterpArray>& args, uint64_t seed) = 0;
};

}  // namespace autotune::test
