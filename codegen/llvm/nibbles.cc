#include "codegen/llvm/nibbles.h"

#include <llvm/IR/IntrinsicsX86.h>

#include "ir/nibble.h"

namespace autotune {
namespace {
constexpr int kEntries = 1 << kNibbleBits;
}  // namespace

bool LooksUpNibbles(const Target& target, int lanes) {
  constexpr int kRegisterBits = 512;
  return target.triple.starts_with("x86_64") && target.vector_bits == kRegisterBits && lanes == kEntries;
}

llvm::Value* EmitFloatsOfNibbles(llvm::IRBuilder<>& builder, llvm::Value* words, llvm::Value* left, bool is_whole) {
  std::vector<llvm::Constant*> numbers;
  for (int i = 0; i < kEntries; ++i)
    numbers.push_back(llvm::ConstantFP::get(builder.getFloatTy(), i < kEntries / 2 ? i : i - kEntries));
  llvm::Value* top = llvm::ConstantInt::get(words->getType(), (kNibblesOfWord - 1) * kNibbleBits);
  llvm::Value* lowest = is_whole ? builder.CreateLShr(words, builder.CreateSub(top, left))
                                 : builder.CreateLShr(builder.CreateShl(words, left), top);
  return builder.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_sf_512, {},
                                 {llvm::ConstantVector::get(numbers), lowest});
}

}  // namespace autotune
