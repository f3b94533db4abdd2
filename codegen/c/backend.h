// The code generator of targets of kind c: C source, which the machine's C compiler compiles (compiler.h) and LLVM
// assembles; and of targets of kind opencl. Thread-safe. Internal to codegen/.
#pragma once
#include "codegen/codegen.h"

namespace autotune {

// As CompileKernel. Errors, too: no C compiler, or one that fails.
Result<KernelObject> CompileWithC(const LoweredKernel& kernel, const Target& target, const CodegenOptions& options);

// As CompileKernel, for targets of kind opencl: nothing is compiled, the driver does that.
Result<KernelObject> CompileWithOpenCl(const LoweredKernel& kernel, const Target& target);

}  // namespace autotune
