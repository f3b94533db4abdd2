#include "codegen/llvm/dots.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>

#include "ir/dot.h"
#include "support/check.h"

namespace autotune {
namespace {

struct Instruction {
  int lanes;
  llvm::Intrinsic::ID of_bytes, of_bf16;
};
constexpr Instruction kInstructions[] = {
    {16, llvm::Intrinsic::x86_avx512_vpdpbusd_512, llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512},
    {8, llvm::Intrinsic::x86_avx512_vpdpbusd_256, llvm::Intrinsic::x86_avx512bf16_dpbf16ps_256},
    {4, llvm::Intrinsic::x86_avx512_vpdpbusd_128, llvm::Intrinsic::x86_avx512bf16_dpbf16ps_128},
};

const Instruction& InstructionFor(int lanes) {
  const auto* found = std::ranges::find(kInstructions, lanes, &Instruction::lanes);
  CHECK(found != std::end(kInstructions)) << "no dot product has " << lanes << " lanes";
  return *found;
}

}  // namespace

llvm::Value* EmitDot(llvm::IRBuilder<>& builder, const Call& dot, llvm::Value* c, llvm::Value* a, llvm::Value* b) {
  const int lanes = dot.args[0].dtype().lanes;
  llvm::Type* words = llvm::FixedVectorType::get(builder.getInt32Ty(), static_cast<unsigned>(lanes));
  // Each lane of an operand is a word that holds a group.
  const auto as_words = [&](llvm::Value* elements, DType type) -> llvm::Value* {
    if (type.lanes != DotGroup(type.Element())) return builder.CreateBitCast(elements, words);
    return builder.CreateVectorSplat(static_cast<unsigned>(lanes),
                                     builder.CreateBitCast(elements, builder.getInt32Ty()));
  };
  const auto each_byte = [&](uint32_t byte) { return llvm::ConstantInt::get(words, byte * 0x01010101u); };
  const auto add = [&](llvm::Value* sum, llvm::Value* is_unsigned, llvm::Value* is_signed) {
    return builder.CreateIntrinsic(InstructionFor(lanes).of_bytes, {}, {sum, is_unsigned, is_signed});
  };
  DType x_type = dot.args[1].dtype(), y_type = dot.args[2].dtype();
  llvm::Value *x = as_words(a, x_type), *y = as_words(b, y_type);
  if (x_type.IsFloat()) {
    llvm::Type* pairs = llvm::FixedVectorType::get(builder.getBFloatTy(), static_cast<unsigned>(2 * lanes));
    return builder.CreateIntrinsic(InstructionFor(lanes).of_bf16, {},
                                   {c, builder.CreateBitCast(x, pairs), builder.CreateBitCast(y, pairs)});
  }
  if (x_type.IsSigned() && !y_type.IsSigned()) std::swap(x, y), std::swap(x_type, y_type);
  if (!x_type.IsSigned() && y_type.IsSigned()) return add(c, x, y);
  llvm::Value* zero = llvm::Constant::getNullValue(words);
  // A byte with the other highest bit is the same number 128 further up or down.
  if (x_type.IsSigned())  // x y = (x + 128) y - 128 y
    return builder.CreateSub(add(c, builder.CreateXor(x, each_byte(0x80)), y), add(zero, each_byte(0x80), y));
  // x y = x (y - 128) + 128 x
  llvm::Value* sum = add(c, x, builder.CreateXor(y, each_byte(0x80)));
  return builder.CreateAdd(sum, builder.CreateShl(add(zero, x, each_byte(0x40)), 1));
}

}  // namespace autotune
