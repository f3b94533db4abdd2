#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "codegen/llvm/emitter.h"
#include "codegen/llvm/walk.h"
#include "support/check.h"

namespace autotune {
namespace {

bool IsSigned(DType dtype) { return dtype.code == TypeCode::kInt || dtype.code == TypeCode::kIndex; }

// The largest power of two that divides n bytes, at most the buffer's alignment.
llvm::Align AlignmentOf(int64_t n, int64_t at_most) {
  int64_t power = n == 0 ? at_most : n & -n;
  return llvm::Align(std::min(power, at_most));
}

}  // namespace

llvm::Type* FunctionEmitter::ValueType(DType dtype) {
  llvm::Type* element;
  switch (dtype.code) {
    case TypeCode::kBool:
      element = builder_.getInt1Ty();
      break;
    case TypeCode::kFloat:
      element = dtype.bits == 64 ? builder_.getDoubleTy() : builder_.getFloatTy();
      break;
    case TypeCode::kInt:
    case TypeCode::kUInt:
    case TypeCode::kIndex:
      element = builder_.getIntNTy(dtype.bits);
      break;
    default:
      CHECK(false) << "no LLVM type for " << dtype.Text();
      return nullptr;
  }
  return dtype.lanes == 1 ? element : llvm::FixedVectorType::get(element, dtype.lanes);
}

llvm::Type* FunctionEmitter::MemoryType(DType dtype) {
  if (!dtype.IsBool()) return ValueType(dtype);
  return dtype.lanes == 1 ? static_cast<llvm::Type*>(builder_.getInt8Ty())
                          : llvm::FixedVectorType::get(builder_.getInt8Ty(), dtype.lanes);
}

llvm::Value* FunctionEmitter::FromMemory(llvm::Value* value, DType dtype) {
  return dtype.IsBool() ? builder_.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType())) : value;
}

llvm::Value* FunctionEmitter::ToMemory(llvm::Value* value, DType dtype) {
  return dtype.IsBool() ? builder_.CreateZExt(value, MemoryType(dtype)) : value;
}

llvm::Value* FunctionEmitter::Splat(llvm::Value* value, int lanes) {
  return lanes == 1 || value->getType()->isVectorTy() ? value : builder_.CreateVectorSplat(lanes, value);
}

llvm::Value* FunctionEmitter::Value(const Expr& e) {
  auto key = std::pair{e.get(), guard_.condition};
  if (auto it = memo_.find(key); it != memo_.end()) return it->second.value;
  // What is computed whatever holds is at hand under every condition: x is loaded once in x < 0 ? f(x) : g(x), and what
  // f and g have in common stays in common.
  if (guard_.condition) {
    if (auto it = memo_.find({e.get(), nullptr}); it != memo_.end()) return it->second.value;
  }
  llvm::Value* value = ValueOf(e);
  memo_.emplace(key, Memo{e, value});
  return value;
}

llvm::Value* FunctionEmitter::ValueOf(const Expr& e) {
  return e.Visit(Overloaded{
      [&](const IntImm& n) -> llvm::Value* {
        return llvm::ConstantInt::get(ValueType(e.dtype()), static_cast<uint64_t>(n.value), IsSigned(e.dtype()));
      },
      [&](const FloatImm& n) -> llvm::Value* { return llvm::ConstantFP::get(ValueType(e.dtype()), n.value); },
      [&](const Var& n) -> llvm::Value* {
        auto it = vars_.find(n.name);
        CHECK(it != vars_.end()) << "variable " << n.name << " is not defined";
        return it->second;
      },
      [&](const Unary& n) { return EmitUnary(n, e); },
      [&](const Binary& n) { return EmitBinary(n); },
      [&](const Cast& n) { return EmitCast(n.a, e.dtype()); },
      [&](const Select& n) { return EmitSelect(n); },
      [&](const Load& n) { return EmitLoad(n, e.dtype()); },
      [&](const Call& n) { return EmitCall(n, e); },
      [&](const Ramp& n) { return EmitRamp(n, e.dtype().lanes); },
      [&](const Broadcast& n) { return Splat(Value(n.a), e.dtype().lanes); },
  });
}

llvm::Value* FunctionEmitter::EmitUnary(const Unary& n, const Expr& e) {
  llvm::Value* a = Value(n.a);
  if (n.op == UnaryOp::kNot) return builder_.CreateNot(a);
  return e.dtype().IsFloat() ? builder_.CreateFNeg(a) : builder_.CreateNeg(a);
}

llvm::Value* FunctionEmitter::EmitBinary(const Binary& n) {
  DType dtype = n.a.dtype();
  if (dtype == DType::Index() && (n.op == BinaryOp::kAdd || n.op == BinaryOp::kSub || n.op == BinaryOp::kMul)) {
    llvm::Value *a = Value(n.a), *b = Value(n.b);
    if (n.op == BinaryOp::kAdd) return builder_.CreateNSWAdd(a, b);
    return n.op == BinaryOp::kSub ? builder_.CreateNSWSub(a, b) : builder_.CreateNSWMul(a, b);
  }
  llvm::Value *a = Value(n.a), *b = Value(n.b);
  bool is_float = dtype.IsFloat(), is_signed = IsSigned(dtype);
  using P = llvm::CmpInst::Predicate;
  auto compare = [&](P ordered, P with_sign, P without) {
    return is_float ? builder_.CreateFCmp(ordered, a, b) : builder_.CreateICmp(is_signed ? with_sign : without, a, b);
  };
  switch (n.op) {
    case BinaryOp::kAdd:
      return is_float ? builder_.CreateFAdd(a, b) : builder_.CreateAdd(a, b);
    case BinaryOp::kSub:
      return is_float ? builder_.CreateFSub(a, b) : builder_.CreateSub(a, b);
    case BinaryOp::kMul:
      return is_float ? builder_.CreateFMul(a, b) : builder_.CreateMul(a, b);
    case BinaryOp::kDiv:
      return builder_.CreateFDiv(a, b);
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod:
      return EmitDivision(n, a, b);
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

llvm::Value* FunctionEmitter::EmitDivision(const Binary& n, llvm::Value* a, llvm::Value* b) {
  DType dtype = n.a.dtype();
  bool is_div = n.op == BinaryOp::kFloorDiv;
  const Broadcast* splat = n.b.As<Broadcast>();
  const int64_t* divisor = AsInt(splat ? splat->a : n.b);
  if (!divisor && guard_.condition) {  // not executed where the guard fails: the divisor may be 0 there
    llvm::Value* one = llvm::ConstantInt::get(b->getType(), 1);
    llvm::Value* condition = guard_.condition;
    if (condition->getType()->isVectorTy() && !b->getType()->isVectorTy()) {
      condition = nullptr;  // a uniform divisor is the same for lanes that are executed
    }
    b = condition ? builder_.CreateSelect(condition, b, one) : builder_.CreateSelect(builder_.CreateIsNull(b), one, b);
  }
  if (!IsSigned(dtype)) return is_div ? builder_.CreateUDiv(a, b) : builder_.CreateURem(a, b);
  if (divisor && *divisor > 0) {
    if ((*divisor & (*divisor - 1)) == 0) {
      return is_div ? builder_.CreateAShr(
                          a, llvm::ConstantInt::get(b->getType(), std::countr_zero(static_cast<uint64_t>(*divisor))))
                    : builder_.CreateAnd(a, llvm::ConstantInt::get(b->getType(), *divisor - 1));
    }
    if (dtype == DType::Index()) {
      Interval range = analyzer_.Bounds(n.a);
      if (range.low && *range.low >= 0) {
        if (range.high && *range.high <= INT32_MAX) {  // a 32-bit multiplication instead of a 128-bit one
          llvm::Value *narrow_a = builder_.CreateTrunc(a, builder_.getInt32Ty()),
                      *narrow_b = builder_.CreateTrunc(b, builder_.getInt32Ty());
          if (*divisor > INT32_MAX) return is_div ? builder_.getInt64(0) : a;
          llvm::Value* q = is_div ? builder_.CreateUDiv(narrow_a, narrow_b) : builder_.CreateURem(narrow_a, narrow_b);
          return builder_.CreateZExt(q, builder_.getInt64Ty());
        }
        return is_div ? builder_.CreateUDiv(a, b) : builder_.CreateURem(a, b);
      }
    }
  }
  // Truncated quotient and remainder, then one step down where the signs differ. Dividing by -1 would trap on the
  // smallest integer: it is negation, which wraps.
  llvm::Value* zero = llvm::Constant::getNullValue(a->getType());
  llvm::Value* one = llvm::ConstantInt::get(a->getType(), 1);
  llvm::Value* minus_one = llvm::Constant::getAllOnesValue(a->getType());
  llvm::Value* by_minus_one = divisor ? nullptr : builder_.CreateICmpEQ(b, minus_one);
  if (divisor && *divisor == -1) return is_div ? builder_.CreateNeg(a) : zero;
  llvm::Value* safe = by_minus_one ? builder_.CreateSelect(by_minus_one, one, b) : b;
  llvm::Value *q = builder_.CreateSDiv(a, safe), *r = builder_.CreateSRem(a, safe);
  llvm::Value* down =
      builder_.CreateAnd(builder_.CreateICmpNE(r, zero), builder_.CreateICmpSLT(builder_.CreateXor(r, safe), zero));
  if (is_div) {
    llvm::Value* floor = builder_.CreateSelect(down, builder_.CreateSub(q, one), q);
    return by_minus_one ? builder_.CreateSelect(by_minus_one, builder_.CreateNeg(a), floor) : floor;
  }
  return builder_.CreateSelect(down, builder_.CreateAdd(r, safe), r);  // safe == 1 gives 0, as b == -1 does
}

llvm::Value* FunctionEmitter::EmitCast(const Expr& from, DType to) {
  DType source = from.dtype();
  llvm::Value* a = Value(from);
  llvm::Type* type = ValueType(to);
  if (to.IsBool()) {
    llvm::Value* zero = llvm::Constant::getNullValue(a->getType());
    return source.IsFloat() ? builder_.CreateFCmpUNE(a, zero) : builder_.CreateICmpNE(a, zero);
  }
  if (source.IsFloat() && to.IsFloat()) return builder_.CreateFPCast(a, type);
  if (source.IsFloat()) return IsSigned(to) ? builder_.CreateFPToSI(a, type) : builder_.CreateFPToUI(a, type);
  bool is_signed = IsSigned(source);
  if (to.IsFloat()) return is_signed ? builder_.CreateSIToFP(a, type) : builder_.CreateUIToFP(a, type);
  return builder_.CreateIntCast(a, type, is_signed);
}

// Both sides are computed, and one is chosen: no branch in a hot loop. Loads of the side that is not chosen are kept
// inside their buffers by the guard.
llvm::Value* FunctionEmitter::EmitSelect(const Select& n) {
  llvm::Value* condition = Value(n.condition);
  Guard outside = guard_;
  auto under = [&](const Expr& e, llvm::Value* holds) {
    if (outside.condition) {
      llvm::Value* other = outside.condition;
      if (holds->getType() != other->getType()) {
        llvm::Type* wide = holds->getType()->isVectorTy() ? holds->getType() : other->getType();
        int lanes = static_cast<int>(llvm::cast<llvm::FixedVectorType>(wide)->getNumElements());
        holds = Splat(holds, lanes);
        other = Splat(other, lanes);
      }
      holds = builder_.CreateAnd(other, holds);
    }
    guard_.condition = holds;
    llvm::Value* value = Value(e);
    guard_ = outside;
    return value;
  };
  bool guard_a = HasGuardedWork(n.a), guard_b = HasGuardedWork(n.b);
  llvm::Value* a = guard_a ? under(n.a, condition) : Value(n.a);
  llvm::Value* b = guard_b ? under(n.b, builder_.CreateNot(condition)) : Value(n.b);
  return builder_.CreateSelect(condition, a, b);
}

bool FunctionEmitter::HasGuardedWork(const Expr& e) {
  bool found = false;
  WalkOnce(e, [&](const Expr& x) {
    const Binary* b = x.As<Binary>();
    found |= x.As<Load>() != nullptr;
    found |= b && (b->op == BinaryOp::kFloorDiv || b->op == BinaryOp::kFloorMod);
    return !found;
  });
  return found;
}

llvm::Value* FunctionEmitter::EmitCall(const Call& n, const Expr& e) {
  std::vector<llvm::Value*> args;
  for (const Expr& a : n.args) args.push_back(Value(a));
  llvm::Type* type = args[0]->getType();
  auto intrinsic = [&](llvm::Intrinsic::ID id) { return builder_.CreateIntrinsic(id, {type}, args); };
  bool is_float = n.args[0].dtype().IsFloat();
  switch (n.op) {
    case Op::kSqrt:
      return intrinsic(llvm::Intrinsic::sqrt);
    case Op::kAbs:
      if (is_float) return intrinsic(llvm::Intrinsic::fabs);
      if (!IsSigned(n.args[0].dtype())) return args[0];
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
      return EmitLdexp(args[0], args[1]);
    case Op::kReinterpret:
      return builder_.CreateBitCast(args[0], ValueType(e.dtype()));
    case Op::kIsNan:
      return is_float ? builder_.CreateFCmpUNO(args[0], args[0]) : llvm::Constant::getNullValue(ValueType(e.dtype()));
    default:
      CHECK(false) << Row(n.op).name << " was not expanded";
      return nullptr;
  }
}

// vscalef, in whole registers of 512 bits: the last one is filled up with zeros.
llvm::Value* FunctionEmitter::EmitLdexp(llvm::Value* x, llvm::Value* n) {
  CHECK(target_.has_ldexp && x->getType()->isFPOrFPVectorTy())
      << "ldexp without the instruction would call the math library";
  llvm::Type *type = x->getType(), *element = type->getScalarType();
  const int whole = element->isFloatTy() ? 16 : 8;
  const int lanes =
      type->isVectorTy() ? static_cast<int>(llvm::cast<llvm::FixedVectorType>(type)->getNumElements()) : 1;
  const auto id = element->isFloatTy() ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_512
                                       : llvm::Intrinsic::x86_avx512_mask_scalef_pd_512;
  llvm::Type* mask = builder_.getIntNTy(static_cast<unsigned>(whole));
  auto lanes_of = [&](llvm::Value* v, int begin, int end, int size) {  // zeros where there are none
    std::vector<int> at;
    for (int i = 0; i < size; ++i) at.push_back(begin + i < end ? begin + i : lanes);
    return builder_.CreateShuffleVector(v, llvm::Constant::getNullValue(v->getType()), at);
  };
  if (lanes == 1) {
    x = builder_.CreateInsertElement(llvm::Constant::getNullValue(llvm::FixedVectorType::get(element, 1)), x,
                                     uint64_t{0});
    n = builder_.CreateInsertElement(llvm::Constant::getNullValue(x->getType()), n, uint64_t{0});
  }
  llvm::Value* all = nullptr;
  for (int begin = 0; begin < lanes; begin += whole) {
    const int end = std::min(lanes, begin + whole);
    llvm::Value *piece_x = lanes_of(x, begin, end, whole), *piece_n = lanes_of(n, begin, end, whole);
    llvm::Value* piece = builder_.CreateIntrinsic(id, {},
                                                  {piece_x, piece_n, llvm::Constant::getNullValue(piece_x->getType()),
                                                   llvm::Constant::getAllOnesValue(mask), builder_.getInt32(4)});
    if (lanes == 1) return builder_.CreateExtractElement(piece, uint64_t{0});
    // Appended to those before, which are whole ones: both made as long as the result first.
    std::vector<int> wide(lanes, llvm::PoisonMaskElem), order(lanes, llvm::PoisonMaskElem);
    for (int i = begin; i < end; ++i) wide[i] = i - begin;
    piece = builder_.CreateShuffleVector(piece, wide);
    if (!all) {
      all = piece;
      continue;
    }
    for (int i = 0; i < end; ++i) order[i] = i < begin ? i : lanes + i;
    all = builder_.CreateShuffleVector(all, piece, order);
  }
  return all;
}

llvm::Value* FunctionEmitter::EmitRamp(const Ramp& n, int lanes) {
  llvm::Value *base = Splat(Value(n.base), lanes), *stride = Splat(Value(n.stride), lanes);
  llvm::Value* steps = builder_.CreateStepVector(base->getType());
  return builder_.CreateAdd(base, builder_.CreateMul(steps, stride));
}

llvm::Value* FunctionEmitter::Index(const Expr& e) {
  llvm::Value* value = Value(e);
  CHECK(value->getType()->isIntegerTy(64)) << "an index is not a scalar";
  return value;
}

FunctionEmitter::Address FunctionEmitter::ElementAt(const Buffer& buffer, llvm::Value* index) {
  const Slot& slot = slots_.at(buffer->name);
  return {builder_.CreateGEP(MemoryType(buffer->dtype.Element()), slot.pointer, index),
          llvm::Align(buffer->dtype.Bytes())};
}

FunctionEmitter::Address FunctionEmitter::AddressOf(const Buffer& buffer, const Expr& index) {
  auto it = slots_.find(buffer->name);
  CHECK(it != slots_.end()) << "buffer " << buffer->name << " has no memory";
  const Slot& slot = it->second;
  llvm::Type* element = MemoryType(buffer->dtype);
  int64_t bytes = buffer->dtype.Bytes();
  LinearForm form = ToLinear(index);

  // Outer loops' terms first, so that their sum leaves the inner loops.
  struct Term {
    int depth;
    int64_t coefficient;
    llvm::Value* value;
  };
  std::vector<Term> terms;
  llvm::Value* inner = nullptr;  // the term of the innermost loop, apart: the others leave that loop as one pointer
  int64_t divisor = form.constant;
  int64_t constant = form.constant;
  for (const auto& [var, coefficient] : form.terms) {
    llvm::Value* value = vars_.at(var);
    divisor = std::gcd(divisor, coefficient);
    if (auto* fixed = llvm::dyn_cast<llvm::ConstantInt>(value)) {
      constant += coefficient * fixed->getSExtValue();
      continue;
    }
    if (inner_loop_ && inner_loop_->var == var) {
      inner = MultipleOf(*inner_loop_, coefficient);
      continue;
    }
    auto depth = depth_.find(var);
    terms.push_back({depth == depth_.end() ? 0 : depth->second, coefficient, value});
  }
  std::stable_sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return a.depth < b.depth; });

  std::vector<int64_t> key{reinterpret_cast<int64_t>(slot.pointer)};
  for (const Term& t : terms) {
    key.push_back(reinterpret_cast<int64_t>(t.value));
    key.push_back(t.coefficient);
  }
  llvm::Value* rest = form.rest ? Value(form.rest) : nullptr;
  key.push_back(reinterpret_cast<int64_t>(rest));
  key.push_back(reinterpret_cast<int64_t>(inner));
  llvm::Value* pointer = nullptr;
  for (size_t scope = addresses_.size(); scope-- > 0 && !pointer;) {
    auto found = addresses_[scope].find(key);
    if (found != addresses_[scope].end()) pointer = found->second;
  }
  if (!pointer) {
    llvm::Value* sum = rest;
    for (const Term& t : terms) {
      llvm::Value* term =
          t.coefficient == 1 ? t.value : builder_.CreateNSWMul(t.value, builder_.getInt64(t.coefficient));
      sum = sum ? builder_.CreateNSWAdd(sum, term) : term;
    }
    pointer = sum ? builder_.CreateGEP(element, slot.pointer, sum) : slot.pointer;
    if (inner) pointer = builder_.CreateGEP(element, pointer, inner);
    addresses_.back()[key] = pointer;
  }
  if (form.rest) divisor = std::gcd(divisor, CommonFactor(form.rest));
  llvm::Align alignment = AlignmentOf(divisor * bytes, slot.alignment);
  if (constant != 0) pointer = builder_.CreateGEP(element, pointer, builder_.getInt64(constant));
  return {pointer, alignment};
}

llvm::Value* FunctionEmitter::EmitLoad(const Load& n, DType dtype) {
  const Expr& index = n.indices[0];
  llvm::Type* type = MemoryType(dtype);
  // Register buffers are read within their bounds whatever holds; a chosen address would keep them in memory. Indices
  // are computed under the same guard: they may hold loads themselves.
  llvm::Value* guard = n.buffer->scope == Scope::kRegister ? nullptr : guard_.condition;
  int lanes = dtype.lanes;
  if (lanes == 1) {
    Address address = guard ? ElementAt(n.buffer, Index(index)) : AddressOf(n.buffer, index);
    if (guard) {
      if (guard->getType()->isVectorTy()) guard = builder_.CreateOrReduce(guard);
      address.pointer = builder_.CreateSelect(guard, address.pointer, slots_.at(n.buffer->name).pointer);
    }
    return FromMemory(builder_.CreateAlignedLoad(type, address.pointer, address.alignment), dtype);
  }
  const Ramp* ramp = index.As<Ramp>();
  if (ramp && IsConst(ramp->stride, 1)) {
    Address address = AddressOf(n.buffer, ramp->base);
    if (!guard) return FromMemory(builder_.CreateAlignedLoad(type, address.pointer, address.alignment), dtype);
    llvm::Align element(n.buffer->dtype.Bytes());
    const Slot& slot = slots_.at(n.buffer->name);
    if (!guard->getType()->isVectorTy() && slot.elements >= lanes) {
      address.pointer = builder_.CreateSelect(guard, address.pointer, slot.pointer);
      return FromMemory(builder_.CreateAlignedLoad(type, address.pointer, address.alignment), dtype);
    }
    llvm::Value* mask = Splat(guard, lanes);
    return FromMemory(
        builder_.CreateMaskedLoad(type, address.pointer, element, mask, llvm::Constant::getNullValue(type)), dtype);
  }
  if (llvm::Value* column = guard ? nullptr : ColumnOfTile(n, type)) return FromMemory(column, dtype);
  if (std::optional<Lanes> at = LanesOf(index)) {
    if (llvm::Value* near = LoadNeighbours(n.buffer, *at, type)) return FromMemory(near, dtype);
  }
  llvm::Value* indices = Value(index);
  if (guard) {
    indices = builder_.CreateSelect(Splat(guard, lanes), indices, llvm::Constant::getNullValue(indices->getType()));
  }
  llvm::Value* gathered = llvm::PoisonValue::get(type);
  for (int lane = 0; lane < lanes; ++lane) {
    Address address = ramp && !guard ? AddressOf(n.buffer, ramp->base + ramp->stride * Expr(lane))
                                     : ElementAt(n.buffer, builder_.CreateExtractElement(indices, lane));
    llvm::Value* element =
        builder_.CreateAlignedLoad(MemoryType(n.buffer->dtype), address.pointer, llvm::Align(n.buffer->dtype.Bytes()));
    gathered = builder_.CreateInsertElement(gathered, element, lane);
  }
  return FromMemory(gathered, dtype);
}

}  // namespace autotune
