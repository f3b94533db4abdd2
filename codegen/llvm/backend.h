// The interface of codegen/llvm to the rest of codegen/. It has no types of LLVM. Only one build at a time may run in a
// process. Internal to codegen/.
#pragma once
#include <string>
#include <vector>

#include "codegen/codegen.h"

namespace autotune {

// CompileKernel for targets of kind llvm.
Result<KernelObject> CompileWithLlvm(const LoweredKernel& kernel, const Target& target, const CodegenOptions& options);

// Returns the CPU features that code for the target may use (names in support/cpu_features.h). Returns an error if LLVM
// does not know the target.
Result<std::vector<std::string>> CpuFeaturesOf(const Target& target);

// Assembles the output of a compiler to a relocatable object. An error has the assembler's first message.
Result<std::string> Assemble(const std::string& assembly, const Target& target);

// Returns the number of bytes of code in a relocatable object; 0 if `elf` is no such object.
int64_t CodeBytes(const std::string& elf);

}  // namespace autotune
