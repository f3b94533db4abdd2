#include "codegen/llvm/operations.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <bit>

#include "codegen/llvm/scalef.h"
#include "support/check.h"

namespace autotune {
namespace {

// Applies a function of one number to each lane. The bits of its result become a lane of the result.
llvm::Value* EachLane(llvm::IRBuilder<>& builder, llvm::Value* a, llvm::Type* type, llvm::Intrinsic::ID function) {
  auto one = [&](llvm::Value* number) {
    return builder.CreateBitCast(builder.CreateIntrinsic(function, {}, {number}), type->getScalarType());
  };
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  if (!vector) return one(a);
  llvm::Value* all = llvm::PoisonValue::get(type);
  for (unsigned lane = 0; lane < vector->getNumElements(); ++lane)
    all = builder.CreateInsertElement(all, one(builder.CreateExtractElement(a, lane)), lane);
  return all;
}

}  // namespace

llvm::Type* Operations::ValueType(DType dtype) {
  llvm::Type* element;
  switch (dtype.code) {
    case TypeCode::kBool:
      element = builder_.getInt1Ty();
      break;
    case TypeCode::kBFloat:
      element = builder_.getInt16Ty();
      break;
    case TypeCode::kFloat:
      element = dtype.bits == 16   ? static_cast<llvm::Type*>(builder_.getInt16Ty())
                : dtype.bits == 64 ? builder_.getDoubleTy()
                                   : builder_.getFloatTy();
      break;
    case TypeCode::kIndex:
      element = IndexType();
      break;
    case TypeCode::kInt:
    case TypeCode::kUInt:
      element = builder_.getIntNTy(dtype.bits);
      break;
    default:
      CHECK(false) << "no LLVM type for " << dtype.Text();
      return nullptr;
  }
  return dtype.lanes == 1 ? element : llvm::FixedVectorType::get(element, dtype.lanes);
}

llvm::Type* Operations::MemoryType(DType dtype) {
  if (!dtype.IsBool()) return ValueType(dtype);
  return dtype.lanes == 1 ? static_cast<llvm::Type*>(builder_.getInt8Ty())
                          : llvm::FixedVectorType::get(builder_.getInt8Ty(), dtype.lanes);
}

llvm::Value* Operations::FromMemory(llvm::Value* value, DType dtype) {
  return dtype.IsBool() ? builder_.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType())) : value;
}

llvm::Value* Operations::ToMemory(llvm::Value* value, DType dtype) {
  return dtype.IsBool() ? builder_.CreateZExt(value, MemoryType(dtype)) : value;
}

llvm::Value* Operations::Splat(llvm::Value* value, int lanes) {
  return lanes == 1 || value->getType()->isVectorTy() ? value : builder_.CreateVectorSplat(lanes, value);
}

llvm::Value* Operations::Ramp(llvm::Value* base, llvm::Value* stride, int lanes) {
  base = Splat(base, lanes);
  stride = Splat(stride, lanes);
  llvm::Value* steps = builder_.CreateStepVector(base->getType());
  return builder_.CreateAdd(base, builder_.CreateMul(steps, stride));
}

llvm::Value* Operations::Unary(UnaryOp op, llvm::Value* a, DType dtype) {
  if (op == UnaryOp::kNot) return builder_.CreateNot(a);
  return dtype.IsFloat() ? builder_.CreateFNeg(a) : builder_.CreateNeg(a);
}

llvm::Value* Operations::Binary(BinaryOp op, llvm::Value* a, llvm::Value* b, DType dtype) {
  bool is_float = dtype.IsFloat(), is_signed = dtype.IsSigned();
  bool no_wrap = dtype == DType::Index();  // the language forbids indices that overflow
  using P = llvm::CmpInst::Predicate;
  auto compare = [&](P ordered, P with_sign, P without) {
    return is_float ? builder_.CreateFCmp(ordered, a, b) : builder_.CreateICmp(is_signed ? with_sign : without, a, b);
  };
  switch (op) {
    case BinaryOp::kAdd:
      return is_float ? builder_.CreateFAdd(a, b) : builder_.CreateAdd(a, b, "", false, no_wrap);
    case BinaryOp::kSub:
      return is_float ? builder_.CreateFSub(a, b) : builder_.CreateSub(a, b, "", false, no_wrap);
    case BinaryOp::kMul:
      return is_float ? builder_.CreateFMul(a, b) : builder_.CreateMul(a, b, "", false, no_wrap);
    case BinaryOp::kDiv:
      return builder_.CreateFDiv(a, b);
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod:
      break;
    case BinaryOp::kMin:
      return builder_.CreateSelect(compare(P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT), a, b);
    case BinaryOp::kMax:
      return builder_.CreateSelect(compare(P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT), a, b);
    case BinaryOp::kEq:
      return compare(P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ);
    case BinaryOp::kNe:
      return compare(P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE);
    case BinaryOp::kLt:
      return compare(P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT);
    case BinaryOp::kLe:
      return compare(P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE);
    case BinaryOp::kGt:
      return compare(P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT);
    case BinaryOp::kGe:
      return compare(P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE);
    case BinaryOp::kAnd:
    case BinaryOp::kBitAnd:
      return builder_.CreateAnd(a, b);
    case BinaryOp::kOr:
    case BinaryOp::kBitOr:
      return builder_.CreateOr(a, b);
    case BinaryOp::kBitXor:
      return builder_.CreateXor(a, b);
    case BinaryOp::kShl:
      return builder_.CreateShl(a, b);
    case BinaryOp::kShr:
      return is_signed ? builder_.CreateAShr(a, b) : builder_.CreateLShr(a, b);
  }
  UNREACHABLE();
  return nullptr;
}

llvm::Value* Operations::Divide(bool quotient, llvm::Value* a, llvm::Value* b, DType dtype,
                                const DivisionFacts& facts) {
  if (!dtype.IsSigned()) return DivideUnsigned(quotient, a, b);
  if (facts.divisor && *facts.divisor > 0) {
    if (std::has_single_bit(static_cast<uint64_t>(*facts.divisor))) {
      return DivideByPowerOfTwo(quotient, a, b->getType(), *facts.divisor);
    }
    if (dtype == DType::Index()) {
      Interval range = facts.dividend();
      if (range.low && *range.low >= 0) {
        bool narrow = range.high && *range.high <= INT32_MAX;
        return narrow ? DivideNarrow(quotient, a, b, *facts.divisor) : DivideUnsigned(quotient, a, b);
      }
    }
  }
  return DivideSigned(quotient, a, b, facts.divisor);
}

llvm::Value* Operations::DivideByPowerOfTwo(bool quotient, llvm::Value* a, llvm::Type* type, int64_t divisor) {
  if (!quotient) return builder_.CreateAnd(a, llvm::ConstantInt::get(type, divisor - 1));
  return builder_.CreateAShr(a, llvm::ConstantInt::get(type, std::countr_zero(static_cast<uint64_t>(divisor))));
}

llvm::Value* Operations::DivideUnsigned(bool quotient, llvm::Value* a, llvm::Value* b) {
  return quotient ? builder_.CreateUDiv(a, b) : builder_.CreateURem(a, b);
}

// Divides a number in [0, INT32_MAX] by a constant, in 32 bits. LLVM implements such a division by a multiplication,
// which is cheaper with 32 bits than with 64.
llvm::Value* Operations::DivideNarrow(bool quotient, llvm::Value* a, llvm::Value* b, int64_t divisor) {
  llvm::Value *narrow_a = builder_.CreateTrunc(a, builder_.getInt32Ty()),
              *narrow_b = builder_.CreateTrunc(b, builder_.getInt32Ty());
  if (divisor > INT32_MAX) return quotient ? llvm::Constant::getNullValue(a->getType()) : a;
  return builder_.CreateZExt(DivideUnsigned(quotient, narrow_a, narrow_b), a->getType());
}

// Emits a division that rounds down. The result is one less than the truncated quotient where the remainder is not 0
// and has another sign than the divisor. The processor traps when it divides the least integer by -1. So a division by
// -1 is emitted as a negation, which wraps.
llvm::Value* Operations::DivideSigned(bool quotient, llvm::Value* a, llvm::Value* b, const int64_t* divisor) {
  llvm::Value* zero = llvm::Constant::getNullValue(a->getType());
  llvm::Value* one = llvm::ConstantInt::get(a->getType(), 1);
  llvm::Value* minus_one = llvm::Constant::getAllOnesValue(a->getType());
  llvm::Value* by_minus_one = divisor ? nullptr : builder_.CreateICmpEQ(b, minus_one);
  if (divisor && *divisor == -1) return quotient ? builder_.CreateNeg(a) : zero;
  llvm::Value* safe = by_minus_one ? builder_.CreateSelect(by_minus_one, one, b) : b;
  llvm::Value *q = builder_.CreateSDiv(a, safe), *r = builder_.CreateSRem(a, safe);
  llvm::Value* down =
      builder_.CreateAnd(builder_.CreateICmpNE(r, zero), builder_.CreateICmpSLT(builder_.CreateXor(r, safe), zero));
  // Where b is -1, the remainder by `safe`, which is 1, is also the remainder by b: both are 0.
  if (!quotient) return builder_.CreateSelect(down, builder_.CreateAdd(r, safe), r);
  llvm::Value* floor = builder_.CreateSelect(down, builder_.CreateSub(q, one), q);
  return by_minus_one ? builder_.CreateSelect(by_minus_one, builder_.CreateNeg(a), floor) : floor;
}

llvm::Value* Operations::Convert(llvm::Value* a, DType from, DType to) {
  llvm::Type* type = ValueType(to);
  if (from.IsHalf() || to.IsHalf()) {
    const bool brain = (from.IsHalf() ? from : to).code == TypeCode::kBFloat;
    llvm::Type* element = brain ? builder_.getBFloatTy() : builder_.getHalfTy();
    llvm::Type* half = ValueType(DType::UInt(16).WithLanes(to.lanes))->getWithNewType(element);
    if (from.IsHalf()) return builder_.CreateFPExt(builder_.CreateBitCast(a, half), type);
    // LLVM knows the instruction of CPUs. For NVIDIA's GPUs it would round to bf16 by integer arithmetic.
    if (brain && !target_.has_bf16_dot) return EachLane(builder_, a, type, llvm::Intrinsic::nvvm_f2bf16_rn);
    return builder_.CreateBitCast(builder_.CreateFPTrunc(a, half), type);
  }
  if (to.IsBool()) {
    llvm::Value* zero = llvm::Constant::getNullValue(a->getType());
    return from.IsFloat() ? builder_.CreateFCmpUNE(a, zero) : builder_.CreateICmpNE(a, zero);
  }
  if (from.IsFloat() && to.IsFloat()) return builder_.CreateFPCast(a, type);
  if (from.IsFloat()) return to.IsSigned() ? builder_.CreateFPToSI(a, type) : builder_.CreateFPToUI(a, type);
  bool is_signed = from.IsSigned();
  if (to.IsFloat()) return is_signed ? builder_.CreateSIToFP(a, type) : builder_.CreateUIToFP(a, type);
  return builder_.CreateIntCast(a, type, is_signed);
}

llvm::Value* Operations::Call(Op op, const std::vector<llvm::Value*>& args, DType from, DType to) {
  llvm::Type* type = args[0]->getType();
  auto intrinsic = [&](llvm::Intrinsic::ID id) { return builder_.CreateIntrinsic(id, {type}, args); };
  const bool is_float = from.IsFloat();
  switch (op) {
    case Op::kSqrt:
      return intrinsic(llvm::Intrinsic::sqrt);
    case Op::kAbs:
      if (is_float) return intrinsic(llvm::Intrinsic::fabs);
      if (!from.IsSigned()) return args[0];
      return builder_.CreateIntrinsic(llvm::Intrinsic::abs, {type}, {args[0], builder_.getFalse()});
    case Op::kFloor:
      return is_float ? intrinsic(llvm::Intrinsic::floor) : args[0];
    case Op::kCeil:
      return is_float ? intrinsic(llvm::Intrinsic::ceil) : args[0];
    case Op::kRound:
      return is_float ? intrinsic(llvm::Intrinsic::roundeven) : args[0];
    case Op::kFma:
      CHECK(target_.has_fma && is_float) << "fma without the instruction would call the math library";
      return intrinsic(llvm::Intrinsic::fma);
    case Op::kLdexp:
      CHECK(target_.has_ldexp && is_float) << "ldexp without the instruction would call the math library";
      return EmitScalef(builder_, args[0], args[1]);
    case Op::kReinterpret:
      return builder_.CreateBitCast(args[0], ValueType(to));
    case Op::kTf32:
      return EachLane(builder_, args[0], type, llvm::Intrinsic::nvvm_f2tf32_rna);
    case Op::kIsNan:
      return is_float ? builder_.CreateFCmpUNO(args[0], args[0]) : llvm::Constant::getNullValue(ValueType(to));
    default:
      CHECK(false) << Row(op).name << " was not expanded";
      return nullptr;
  }
}

}  // namespace autotune
