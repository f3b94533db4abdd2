#include "codegen/llvm/dots.h"

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>

#include "ir/dot.h"
#include "support/check.h"

namespace autotune {
namespace {

struct Instruction {
  int lanes;
  llvm::Intrinsic::ID of_bytes, of_words, of_bf16;
};
constexpr Instruction kInstructions[] = {
    {16, llvm::Intrinsic::x86_avx512_vpdpbusd_512, llvm::Intrinsic::x86_avx512_pmaddw_d_512,
     llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512},
    {8, llvm::Intrinsic::x86_avx512_vpdpbusd_256, llvm::Intrinsic::x86_avx2_pmadd_wd,
     llvm::Intrinsic::x86_avx512bf16_dpbf16ps_256},
    {4, llvm::Intrinsic::x86_avx512_vpdpbusd_128, llvm::Intrinsic::x86_sse2_pmadd_wd,
     llvm::Intrinsic::x86_avx512bf16_dpbf16ps_128},
};

const Instruction& InstructionFor(int lanes) {
  const auto* found = std::ranges::find(kInstructions, lanes, &Instruction::lanes);
  CHECK(found != std::end(kInstructions)) << "no dot product has " << lanes << " lanes";
  return *found;
}

// Emits one dot product whose operands are integers of 32 bits, each of which holds a group.
class DotEmitter {
 public:
  DotEmitter(llvm::IRBuilder<>& builder, const Target& target, int lanes)
      : b_(builder),
        is_arm_(target.triple.starts_with("aarch64")),
        mixes_signs_(target.has_mixed_dot),
        lanes_(static_cast<unsigned>(lanes)),
        groups_(llvm::FixedVectorType::get(builder.getInt32Ty(), lanes_)) {}

  llvm::Value* Groups(llvm::Value* elements, DType type) {
    if (type.lanes != DotGroup(type.Element())) return b_.CreateBitCast(elements, groups_);
    return b_.CreateVectorSplat(lanes_, b_.CreateBitCast(elements, b_.getInt32Ty()));
  }

  llvm::Value* OfBf16(llvm::Value* sum, llvm::Value* x, llvm::Value* y) {
    llvm::Type* pairs = llvm::FixedVectorType::get(b_.getBFloatTy(), 2 * lanes_);
    x = b_.CreateBitCast(x, pairs), y = b_.CreateBitCast(y, pairs);
    if (is_arm_) return b_.CreateIntrinsic(llvm::Intrinsic::aarch64_neon_bfdot, {sum->getType(), pairs}, {sum, x, y});
    return b_.CreateIntrinsic(InstructionFor(static_cast<int>(lanes_)).of_bf16, {}, {sum, x, y});
  }

  // vpmaddwd gives the sums of pairs. A pair wraps around only if all four numbers are -2^15, as `dot` does.
  llvm::Value* OfWords(llvm::Value* sum, llvm::Value* x, llvm::Value* y) {
    llvm::Type* pairs = llvm::FixedVectorType::get(b_.getInt16Ty(), 2 * lanes_);
    x = b_.CreateBitCast(x, pairs), y = b_.CreateBitCast(y, pairs);
    llvm::Value* added = b_.CreateIntrinsic(InstructionFor(static_cast<int>(lanes_)).of_words, {}, {x, y});
    return InOrder(b_.CreateAdd(sum, added));
  }

  llvm::Value* OfBytes(llvm::Value* sum, llvm::Value* x, bool x_signed, llvm::Value* y, bool y_signed) {
    if (x_signed && !y_signed) std::swap(x, y), std::swap(x_signed, y_signed);
    return is_arm_ ? OnArm(sum, x, x_signed, y, y_signed) : OnX86(sum, x, x_signed, y, y_signed);
  }

 private:
  // Keeps additions in their order: an assembler text without instructions hides the sum from LLVM's reassociation,
  // which adds the products of several steps to each other first, to shorten the chain of a sum. A tile of sums has no
  // registers for so many products.
  llvm::Value* InOrder(llvm::Value* sum) {
    llvm::FunctionType* same = llvm::FunctionType::get(sum->getType(), {sum->getType()}, false);
    return b_.CreateCall(same, llvm::InlineAsm::get(same, "", "=v,0", /*hasSideEffects=*/false), {sum});
  }

  llvm::Value* EachByte(uint32_t byte) { return llvm::ConstantInt::get(groups_, byte * 0x01010101u); }
  // A byte with the other highest bit is the same number 128 further up or down.
  llvm::Value* Moved(llvm::Value* bytes) { return b_.CreateXor(bytes, EachByte(0x80)); }

  llvm::Value* Arm(llvm::Intrinsic::ID instruction, llvm::Value* sum, llvm::Value* x, llvm::Value* y) {
    llvm::Type* bytes = llvm::FixedVectorType::get(b_.getInt8Ty(), 4 * lanes_);
    return b_.CreateIntrinsic(instruction, {groups_, bytes},
                              {sum, b_.CreateBitCast(x, bytes), b_.CreateBitCast(y, bytes)});
  }

  // Either both operands have a sign, or x has none.
  llvm::Value* OnArm(llvm::Value* sum, llvm::Value* x, bool x_signed, llvm::Value* y, bool y_signed) {
    constexpr auto kSigned = llvm::Intrinsic::aarch64_neon_sdot;
    if (x_signed) return Arm(kSigned, sum, x, y);
    if (!y_signed) return Arm(llvm::Intrinsic::aarch64_neon_udot, sum, x, y);
    if (mixes_signs_) return Arm(llvm::Intrinsic::aarch64_neon_usdot, sum, x, y);
    // x y = (x - 128) y + 128 y
    llvm::Value* each = Arm(kSigned, llvm::Constant::getNullValue(groups_), EachByte(1), y);
    return b_.CreateAdd(Arm(kSigned, sum, Moved(x), y), b_.CreateShl(each, 7));
  }

  llvm::Value* OnX86(llvm::Value* sum, llvm::Value* x, bool x_signed, llvm::Value* y, bool y_signed) {
    const auto add = [&](llvm::Value* to, llvm::Value* is_unsigned, llvm::Value* is_signed) {
      return b_.CreateIntrinsic(InstructionFor(static_cast<int>(lanes_)).of_bytes, {}, {to, is_unsigned, is_signed});
    };
    if (!x_signed && y_signed) return add(sum, x, y);
    llvm::Value* zero = llvm::Constant::getNullValue(groups_);
    // x y = (x + 128) y - 128 y
    if (x_signed) return b_.CreateSub(add(sum, Moved(x), y), add(zero, EachByte(0x80), y));
    // x y = x (y - 128) + 128 x
    return b_.CreateAdd(add(sum, x, Moved(y)), b_.CreateShl(add(zero, x, EachByte(0x40)), 1));
  }

  llvm::IRBuilder<>& b_;
  const bool is_arm_, mixes_signs_;
  const unsigned lanes_;
  llvm::Type* groups_;
};

}  // namespace

llvm::Value* EmitDot(llvm::IRBuilder<>& builder, const Target& target, const Call& dot, llvm::Value* c, llvm::Value* a,
                     llvm::Value* b) {
  DotEmitter emitter(builder, target, dot.args[0].dtype().lanes);
  const DType x_type = dot.args[1].dtype(), y_type = dot.args[2].dtype();
  llvm::Value *x = emitter.Groups(a, x_type), *y = emitter.Groups(b, y_type);
  if (x_type.IsFloat()) return emitter.OfBf16(c, x, y);
  if (IsWord(x_type.Element())) return emitter.OfWords(c, x, y);
  return emitter.OfBytes(c, x, x_type.IsSigned(), y, y_type.IsSigned());
}

}  // namespace autotune
