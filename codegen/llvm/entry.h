// The entry points of a kernel (runtime/abi.h): NAME, NAME.raw, NAME.prepare, around the functions that the emitter
// makes. Internal to codegen/llvm; not thread-safe.
#pragma once
#include <llvm/IR/Module.h>

#include "codegen/llvm/emitter.h"
#include "lower/lower.h"
#include "runtime/artifact.h"

namespace autotune {

void EmitKernel(Modules modules, const LoweredKernel& kernel, const KernelMetadata& metadata, const Target& target);
// `autotune.check`, by which the entry points of all kernels of an artifact check their arguments
void EmitCheck(llvm::Module& module);
// `autotune.metadata`
void EmitMetadata(llvm::Module& module, const ArtifactMetadata& metadata);

}  // namespace autotune
