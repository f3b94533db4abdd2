// Emits dot products (ir/dot.h) by x86's vpdpbusd, which multiplies unsigned by signed bytes, vpmaddwd and vdpbf16ps,
// or by AArch64's sdot, udot, usdot and bfdot. Internal to codegen/llvm.
#pragma once
#include <llvm/IR/IRBuilder.h>

#include "ir/expr.h"
#include "target/target.h"

namespace autotune {

// Returns `dot`. `c` has 4 lanes, or 8 or 16 on x86. `dot` states the types of all operands.
llvm::Value* EmitDot(llvm::IRBuilder<>& builder, const Target& target, const Call& dot, llvm::Value* c, llvm::Value* a,
                     llvm::Value* b);

}  // namespace autotune
