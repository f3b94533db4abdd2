// Emits dot products (ir/dot.h) by x86's vpdpbusd, which multiplies unsigned by signed bytes, and vdpbf16ps. Internal
// to codegen/llvm.
#pragma once
#include <llvm/IR/IRBuilder.h>

#include "ir/expr.h"

namespace autotune {

// Returns `dot`. `c` has 4, 8 or 16 lanes, and `dot` states the types of all operands.
llvm::Value* EmitDot(llvm::IRBuilder<>& builder, const Call& dot, llvm::Value* c, llvm::Value* a, llvm::Value* b);

}  // namespace autotune
