// For tests: runs kernels for NVIDIA GPUs on this machine, by compiling the LLVM module of the PTX emitter for the
// host. Special registers are read from memory. Threads are fibers. A barrier switches to the next fiber, and between
// barriers the threads run one after the other in a random order. Not thread-safe.
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
  // Fails if some threads of a block wait at a barrier while others have ended.
  virtual Status Run(const PrimFunc& f, std::vector<InterpArray>& args, uint64_t seed) = 0;
};

}  // namespace autotune::test
