// The code generator of targets of kind c: C source, which the machine's C compiler compiles (compiler.h) and LLVM
// assembles. Thread-safe. Internal to codegen/.
#pragma once
#include "codegen/codegen.h"

namespace autotune {

// As CompileKernel. Errors, too: no C compiler, or one that fails.
Result<KernelObject> CompileWithC(const LoweredKernel& kernel, const Target& target, const CodegenOptions& options);

}  // namespace autotune
