// Emits the allocation of a function's scratch memory: small blocks are on the stack, larger ones come from AtContext
// (runtime/abi.h). Internal to codegen/llvm/cpu.
#pragma once
#include <vector>

#include "codegen/llvm/cpu/module.h"

namespace autotune {

struct ScratchMemory {
  std::vector<llvm::Value*> pointers;  // one per slot of the workspace
  llvm::Value* to_free = nullptr;      // block of AtContext that FreeScratch frees; null if there is none
};
// Emits the allocation of `workspace`. If the allocation fails at run time, the emitted function returns 1.
ScratchMemory AllocateScratch(llvm::IRBuilder<>& builder, llvm::Value* context, const Workspace& workspace);
void FreeScratch(llvm::IRBuilder<>& builder, llvm::Value* context, const ScratchMemory& scratch);

}  // namespace autotune
