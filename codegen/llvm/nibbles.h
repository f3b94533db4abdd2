// Emits the conversion of numbers of 4 bits to floats by AVX-512. Internal to codegen/llvm.
#pragma once
#include <llvm/IR/IRBuilder.h>

#include "target/target.h"

namespace autotune {

// Returns whether the target looks up `lanes` floats in a register of 16.
bool LooksUpNibbles(const Target& target, int lanes);

// Moves words, a vector of i32, up by `left` bits, and returns the upper 4 bits of each, numbers from -8 to 7, as
// floats. A look-up uses the lowest 4 bits of a word as the index of a float in a register. So one shift and one
// look-up replace two shifts and a conversion, if all 4 bits are those of the word (`is_whole`): `left` is at most 28.
// Otherwise bits from below the word, zeros, need the other shift. LooksUpNibbles must hold.
llvm::Value* EmitFloatsOfNibbles(llvm::IRBuilder<>& builder, llvm::Value* words, llvm::Value* left, bool is_whole);

}  // namespace autotune
