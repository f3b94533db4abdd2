// PTX: kernels of threads for NVIDIA's GPUs, by LLVM's back end NVPTX. PTX is text, which the driver compiles for its
// GPU when it loads the text. So code for one architecture runs on all later ones, too. Internal to codegen/.
#pragma once
#include "codegen/codegen.h"

namespace autotune {

// CompileKernel for targets of kind cuda. `source` of the result is a PTX module.
Result<KernelObject> CompileToPtx(const LoweredKernel& kernel, const Target& target, const CodegenOptions& options);

}  // namespace autotune
