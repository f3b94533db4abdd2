// The entry points of a kernel on a CPU (runtime/abi.h): NAME, NAME.raw, NAME.prepare. They call the functions that
// FunctionEmitter emits. Not thread-safe. Internal to codegen/llvm.
#pragma once
#include <llvm/IR/Module.h>

#include "codegen/llvm/cpu/module.h"
#include "lower/lower.h"
#include "runtime/artifact.h"

namespace autotune {

// Emits the entry points of `kernel` and all functions that they need.
void EmitKernel(Modules modules, const LoweredKernel& kernel, const KernelMetadata& metadata, const Target& target);
// Emits `autotune.check`, by which the entry points of all kernels of an artifact check their arguments.
void EmitCheck(llvm::Module& module);
// Emits `autotune.metadata`, the artifact's metadata as JSON.
void EmitMetadata(llvm::Module& module, const ArtifactMetadata& metadata);

}  // namespace autotune
