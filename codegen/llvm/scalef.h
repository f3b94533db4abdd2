// Emits x * 2^n by vscalef, an instruction of AVX-512. Internal to codegen/llvm.
#pragma once
#include <llvm/IR/IRBuilder.h>

namespace autotune {

// Returns x * 2^n. `x` and `n` have the same type: scalars or vectors of f32 or f64.
llvm::Value* EmitScalef(llvm::IRBuilder<>& builder, llvm::Value* x, llvm::Value* n);

}  // namespace autotune
