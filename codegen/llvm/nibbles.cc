#include "codegen/llvm/nibbles.h"

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/PatternMatch.h>

#include "ir/nibble.h"

namespace autotune {
namespace {
constexpr int kEntries = 1 << kNibbleBits;
constexpr int kTop = (kNibblesOfWord - 1) * kNibbleBits;

// Returns whether all lanes of `left` are known to be at most kTop.
bool IsUpToTop(llvm::Value* left) {
  const llvm::APInt* bits = nullptr;
  return llvm::PatternMatch::match(left, llvm::PatternMatch::m_APInt(bits)) && bits->ule(kTop);
}

}  // namespace

bool LooksUpNibbles(const Target& target, int lanes) {
  constexpr int kRegisterBits = 512;
  return target.triple.starts_with("x86_64") && target.vector_bits == kRegisterBits && lanes == kEntries;
}

llvm::Value* EmitFloatsOfNibbles(llvm::IRBuilder<>& builder, llvm::Value* words, llvm::Value* left) {
  std::vector<llvm::Constant*> numbers;
  for (int i = 0; i < kEntries; ++i)
    numbers.push_back(llvm::ConstantFP::get(builder.getFloatTy(), i < kEntries / 2 ? i : i - kEntries));
  llvm::Value* top = llvm::ConstantInt::get(words->getType(), kTop);
  // Beyond kTop, the lowest of the 4 bits come from below the word: they are 0.
  llvm::Value* lowest = IsUpToTop(left) ? builder.CreateLShr(words, builder.CreateSub(top, left))
                                        : builder.CreateLShr(builder.CreateShl(words, left), top);
  return builder.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_sf_512, {},
                                 {llvm::ConstantVector::get(numbers), lowest});
}

}  // namespace autotune
