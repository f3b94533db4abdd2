// The code generators for targets of kinds c and opencl. For kind c, the C compiler of this machine compiles the source
// to assembly (compiler.h), and LLVM assembles it. Thread-safe. Internal to codegen/.
#pragma once
#include "codegen/codegen.h"

namespace autotune {

// CompileKernel for targets of kind c. Further errors: there is no C compiler, or it fails.
Result<KernelObject> CompileWithC(const LoweredKernel& kernel, const Target& target, const CodegenOptions& options);

// CompileKernel for targets of kind opencl. The result has a source and no objects; the device's driver compiles the
// source when it loads the library.
Result<KernelObject> CompileWithOpenCl(const LoweredKernel& kernel, const Target& target);

}  // namespace autotune
