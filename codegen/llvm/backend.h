// LLVM as the rest of codegen/ sees it: without its types. One build at a time per process. Internal to codegen/.
#pragma once
#include <string>
#include <vector>

#include "codegen/codegen.h"

namespace autotune {

// As CompileKernel, for targets of kind llvm.
Result<KernelObject> CompileWithLlvm(const LoweredKernel& kernel, const Target& target, const CodegenOptions& options);

// The names in support/cpu_features.h of what code for a target may use. Errors: LLVM does not know the target.
Result<std::vector<std::string>> CpuFeaturesOf(const Target& target);

// Makes a relocatable object of a compiler's assembly. An error has the assembler's first message.
Result<std::string> Assemble(const std::string& assembly, const Target& target);

// The bytes of code in a relocatable object; 0 if it is none.
int64_t CodeBytes(const std::string& elf);

}  // namespace autotune
