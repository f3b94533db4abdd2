// Operations: emits LLVM IR for one operation of the language on LLVM values. It knows types and arithmetic, but no
// buffers, variables or statements. All code generators that emit LLVM IR use it. Borrows the builder and the target,
// which must outlive it. Not thread-safe. Internal to codegen/llvm.
#pragma once
#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/IR/IRBuilder.h>

#include <vector>

#include "arith/analyzer.h"
#include "target/target.h"

namespace autotune {

class Operations {
 public:
  // `index_bits` is the width of an index, 64 or 32. The caller passes 32 only if no index needs more
  // (codegen/index_width.h).
  Operations(llvm::IRBuilder<>& builder, const Target& target, int index_bits)
      : builder_(builder), target_(target), index_bits_(index_bits) {}

  llvm::IntegerType* IndexType() { return builder_.getIntNTy(static_cast<unsigned>(index_bits_)); }
  llvm::ConstantInt* Index(int64_t value) { return llvm::ConstantInt::getSigned(IndexType(), value); }

  // Return the type of a value, and its type in memory. They differ for bool: i1 and i8.
  llvm::Type* ValueType(DType dtype);
  llvm::Type* MemoryType(DType dtype);
  llvm::Value* FromMemory(llvm::Value* value, DType dtype);
  llvm::Value* ToMemory(llvm::Value* value, DType dtype);

  // Returns a vector of `lanes` copies of a scalar. Returns `value` unchanged if it is a vector or if `lanes` is 1.
  llvm::Value* Splat(llvm::Value* value, int lanes);
  // Returns the vector base, base + stride, base + 2 * stride ... of `lanes` lanes.
  llvm::Value* Ramp(llvm::Value* base, llvm::Value* stride, int lanes);

  llvm::Value* Unary(UnaryOp op, llvm::Value* a, DType dtype);
  // Applies any operator but floordiv and floormod. `dtype` is the operands' type.
  llvm::Value* Binary(BinaryOp op, llvm::Value* a, llvm::Value* b, DType dtype);

  // Facts about a division.
  struct DivisionFacts {
    const int64_t* divisor = nullptr;         // the divisor, if it is a constant; else null
    llvm::function_ref<Interval()> dividend;  // computes the dividend's bounds
  };
  // Returns floordiv(a, b) of integers if `quotient` is true, else floormod(a, b). No lane of `b` may be 0.
  llvm::Value* Divide(bool quotient, llvm::Value* a, llvm::Value* b, DType dtype, const DivisionFacts& facts);

  llvm::Value* Convert(llvm::Value* a, DType from, DType to);
  const Target& target() const { return target_; }

  // Calls a function of ir/op.h that needs no expansion on this target. `from` is the type of the first argument, `to`
  // the type of the result.
  llvm::Value* Call(Op op, const std::vector<llvm::Value*>& args, DType from, DType to);

 private:
  llvm::Value* DivideByPowerOfTwo(bool quotient, llvm::Value* a, llvm::Type* type, int64_t divisor);
  llvm::Value* DivideUnsigned(bool quotient, llvm::Value* a, llvm::Value* b);
  llvm::Value* DivideNarrow(bool quotient, llvm::Value* a, llvm::Value* b, int64_t divisor);
  llvm::Value* DivideSigned(bool quotient, llvm::Value* a, llvm::Value* b, const int64_t* divisor);

  llvm::IRBuilder<>& builder_;
  const Target& target_;
  const int index_bits_;
};

}  // namespace autotune
