// PTX: kernels of threads for NVIDIA's GPUs, by LLVM's back end NVPTX. It writes text, which the driver compiles for
// the GPU at hand when it loads it; so code for one architecture runs on all later ones, too. Internal to codegen/.
#pragma once
#include "codegen/codegen.h"

namespace autotune {

// As CompileKernel, for targets of kind cuda: `source` is a PTX module.
Result<KernelObject> CompileToPtx(const LoweredKernel& kernel, const Target& target, const CodegenOptions& options);

}  // namespace autotune
