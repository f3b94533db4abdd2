// Emits look-ups of bytes in tables that registers hold (ir/byte_table.h). Internal to codegen/llvm.
#pragma once
#include <llvm/IR/IRBuilder.h>

#include "target/target.h"

namespace autotune {

// Returns whether the target looks up a vector of `lanes` bytes in registers. It does so for any number of lanes that
// is worth the instructions.
bool LooksUpBytes(const Target& target, int lanes);

// Returns the entries, at `table`, for a vector of i8. Reads the whole table, also where no lane is used. LooksUpBytes
// must hold.
llvm::Value* EmitByteLookUp(llvm::IRBuilder<>& builder, const Target& target, llvm::Value* table, llvm::Value* bytes);

}  // namespace autotune
