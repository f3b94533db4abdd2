#include "codegen/llvm/expressions.h"

#include <algorithm>
#include <limits>

#include "codegen/guarded_work.h"
#include "codegen/lanes.h"
#include "codegen/llvm/dots.h"
#include "codegen/llvm/nibbles.h"
#include "ir/float_math.h"
#include "ir/nibble.h"
#include "support/check.h"

namespace autotune {
namespace {

int LaneCount(llvm::Type* type) {
  return type->isVectorTy() ? static_cast<int>(llvm::cast<llvm::FixedVectorType>(type)->getNumElements()) : 1;
}

}  // namespace

Expressions::Expressions(llvm::IRBuilder<>& builder, const Target& target, const Bindings& bindings,
                         StridedLoads* strided, int index_bits)
    : builder_(builder),
      bindings_(bindings),
      strided_(strided),
      operations_(builder, target, index_bits),
      addresses_(builder, operations_, bindings, [this](const Expr& e) { return Value(e); }) {}

llvm::Value* Expressions::Value(const Expr& e) {
  auto key = std::pair{e.get(), guard_};
  if (auto it = memo_.find(key); it != memo_.end()) return it->second.value;
  // A value that was computed under an outer guard, or without one, is valid here, too. So in x < 0 ? f(x) : g(x), x is
  // loaded once, and f and g share their common subexpressions. The code of nested selects would grow exponentially
  // with their depth otherwise.
  for (auto outer = outer_guards_.rbegin(); outer != outer_guards_.rend(); ++outer) {
    if (auto it = memo_.find({e.get(), *outer}); it != memo_.end()) return it->second.value;
  }
  if (guard_) {
    if (auto it = memo_.find({e.get(), nullptr}); it != memo_.end()) return it->second.value;
  }
  llvm::Value* value = Compute(e);
  memo_.emplace(key, Memo{e, value});
  return value;
}

llvm::Value* Expressions::Index(const Expr& e) {
  llvm::Value* value = Value(e);
  CHECK(value->getType() == operations_.IndexType()) << "an index is not a scalar";
  return value;
}

llvm::Value* Expressions::Compute(const Expr& e) {
  DType dtype = e.dtype();
  return e.Visit(Overloaded{
      [&](const IntImm& n) -> llvm::Value* {
        const bool is_signed = dtype.code == TypeCode::kInt || dtype.code == TypeCode::kIndex;
        return llvm::ConstantInt::get(operations_.ValueType(dtype), static_cast<uint64_t>(n.value), is_signed);
      },
      [&](const FloatImm& n) -> llvm::Value* {
        llvm::Type* type = operations_.ValueType(dtype);
        if (dtype.IsHalf()) return llvm::ConstantInt::get(type, FloatToBits(n.value, dtype));
        return llvm::ConstantFP::get(type, n.value);
      },
      [&](const Var& n) -> llvm::Value* {
        auto it = bindings_.vars.find(n.name);
        CHECK(it != bindings_.vars.end()) << "variable " << n.name << " is not defined";
        return it->second;
      },
      [&](const Unary& n) { return operations_.Unary(n.op, Value(n.a), dtype); },
      [&](const Binary& n) { return ComputeBinary(n); },
      [&](const Cast& n) { return ComputeCast(n, dtype); },
      [&](const Select& n) { return ComputeSelect(n); },
      [&](const Load& n) { return ComputeLoad(n, dtype); },
      [&](const Call& n) { return ComputeCall(n, dtype); },
      [&](const Ramp& n) {
        llvm::Value* base = operations_.Splat(Value(n.base), dtype.lanes);
        return operations_.Ramp(base, Value(n.stride), dtype.lanes);
      },
      [&](const Broadcast& n) { return operations_.Splat(Value(n.a), dtype.lanes); },
  });
}

// Returns the bounds of a number of i32 that all lanes share.
Interval Expressions::BoundsOfLanes(const Expr& e) const {
  const Broadcast* splat = e.As<Broadcast>();
  const Expr number = splat ? Expr(splat->a) : e;
  if (const Cast* cast = number.As<Cast>(); cast && cast->a.dtype().IsIndex()) {
    const Interval bounds = bindings_.analyzer.Bounds(cast->a);
    constexpr int64_t kLeast = std::numeric_limits<int32_t>::min(), kMost = std::numeric_limits<int32_t>::max();
    return bounds.low && *bounds.low >= kLeast && bounds.high && *bounds.high <= kMost ? bounds : Interval();
  }
  return bindings_.analyzer.Bounds(number);
}

llvm::Value* Expressions::ComputeCast(const Cast& n, DType dtype) {
  if (dtype.Element() == DType::Float(32) && LooksUpNibbles(operations_.target(), dtype.lanes)) {
    if (const std::optional<FoundNibble> nibble = FindNibble(n.a)) {
      const Interval left = BoundsOfLanes(nibble->left);
      const bool is_whole = left.low && left.high && *left.low >= 0 && *left.high <= 32 - kNibbleBits;
      return EmitFloatsOfNibbles(builder_, Value(nibble->word), Value(nibble->left), is_whole);
    }
  }
  return operations_.Convert(Value(n.a), n.a.dtype(), dtype);
}

llvm::Value* Expressions::ComputeBinary(const Binary& n) {
  if (IsComparison(n.op) && n.a.dtype().IsIndex() && n.a.dtype().lanes > 1) {
    if (llvm::Value* mask = CompareLanes(n)) return mask;
  }
  const bool quotient = n.op == BinaryOp::kFloorDiv;
  llvm::Value *a = Value(n.a), *b = Value(n.b);
  if (!quotient && n.op != BinaryOp::kFloorMod) return operations_.Binary(n.op, a, b, n.a.dtype());
  const Broadcast* splat = n.b.As<Broadcast>();
  const int64_t* divisor = AsInt(splat ? splat->a : n.b);
  if (!divisor && guard_) b = NonZero(b);
  auto dividend = [&] { return bindings_.analyzer.Bounds(n.a); };
  return operations_.Divide(quotient, a, b, n.a.dtype(), {divisor, dividend});
}

// Compares index vectors by a comparison of 32-bit lanes and returns the mask. Returns null, so that the caller
// compares them as usual, if the distances between the lanes are unknown or all equal, or if the scalar is a constant.
llvm::Value* Expressions::CompareLanes(const Binary& n) {
  const std::optional<LaneComparison> comparison = ComparisonOfLanes(n.a, n.b);
  if (!comparison || comparison->limit.IsConst()) return nullptr;
  const std::vector<int64_t>& distances = comparison->distances;
  if (std::all_of(distances.begin(), distances.end(), [&](int64_t d) { return d == distances[0]; })) return nullptr;
  llvm::Type* narrow = builder_.getInt32Ty();
  llvm::Value* limit = Value(comparison->limit.ToExpr());
  if (limit->getType() != narrow) {
    auto bound = [&](int32_t value) { return llvm::ConstantInt::getSigned(limit->getType(), value); };
    limit = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, limit, bound(std::numeric_limits<int32_t>::max()));
    limit = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, limit, bound(std::numeric_limits<int32_t>::min()));
    limit = builder_.CreateTrunc(limit, narrow);
  }
  std::vector<llvm::Constant*> lanes;
  for (const int64_t distance : distances) lanes.push_back(llvm::ConstantInt::getSigned(narrow, distance));
  return operations_.Binary(n.op, llvm::ConstantVector::get(lanes),
                            operations_.Splat(limit, static_cast<int>(lanes.size())), DType::Int(32));
}

// Returns `divisor` where the guard holds, and 1 where it fails. The division runs there, too, and `divisor` may be 0.
llvm::Value* Expressions::NonZero(llvm::Value* divisor) {
  llvm::Value* one = llvm::ConstantInt::get(divisor->getType(), 1);
  // A scalar divisor under a vector of conditions is common to all lanes. If it is 0, no lane's guard holds, and any
  // other divisor will do.
  const bool lane_wise = !guard_->getType()->isVectorTy() || divisor->getType()->isVectorTy();
  return lane_wise ? builder_.CreateSelect(guard_, divisor, one)
                   : builder_.CreateSelect(builder_.CreateIsNull(divisor), one, divisor);
}

llvm::Value* Expressions::ComputeCall(const Call& n, DType dtype) {
  std::vector<llvm::Value*> args;
  for (const Expr& a : n.args) args.push_back(Value(a));
  if (n.op == Op::kDot) return EmitDot(builder_, operations_.target(), n, args[0], args[1], args[2]);
  return operations_.Call(n.op, args, n.args[0].dtype(), dtype);
}

llvm::Value* Expressions::ComputeSelect(const Select& n) {
  llvm::Value* condition = Value(n.condition);
  bool guard_a = HasGuardedWork(n.a), guard_b = HasGuardedWork(n.b);
  if (guard_a && guard_b) {
    for (const Expr& term : CommonTerms(n.a, n.b)) Value(term);
  }
  llvm::Value* a = guard_a ? ValueUnder(condition, n.a) : Value(n.a);
  llvm::Value* b = guard_b ? ValueUnder(builder_.CreateNot(condition), n.b) : Value(n.b);
  return builder_.CreateSelect(condition, a, b);
}

// Returns the value of `e`, which is used only where `condition` and the current guard hold.
llvm::Value* Expressions::ValueUnder(llvm::Value* condition, const Expr& e) {
  llvm::Value* outside = guard_;
  if (outside) {
    llvm::Value* other = outside;
    if (condition->getType() != other->getType()) {
      const int lanes = std::max(LaneCount(condition->getType()), LaneCount(other->getType()));
      condition = operations_.Splat(condition, lanes);
      other = operations_.Splat(other, lanes);
    }
    condition = builder_.CreateAnd(other, condition);
  }
  if (outside) outer_guards_.push_back(outside);
  guard_ = condition;
  llvm::Value* value = Value(e);
  guard_ = outside;
  if (outside) outer_guards_.pop_back();
  return value;
}

llvm::Value* Expressions::ComputeLoad(const Load& n, DType dtype) {
  llvm::Type* type = operations_.MemoryType(dtype);
  // Loads from register buffers need no guard: their indices are always in bounds, and an address that is selected at
  // run time would force the buffer into memory. The index is still computed under the guard, since it may contain
  // other loads.
  llvm::Value* guard = n.buffer->scope == Scope::kRegister ? nullptr : guard_;
  const Ramp* ramp = n.indices[0].As<Ramp>();
  llvm::Value* value = nullptr;
  if (dtype.lanes == 1) {
    value = LoadScalar(n, type, guard);
  } else if (ramp && IsConst(ramp->stride, 1)) {
    value = LoadContiguous(n, *ramp, type, guard);
  } else {
    const auto value_of = [this](const Expr& e) { return Value(e); };
    if (strided_) value = strided_->Emit(addresses_, n, type, {guard, value_of});
    if (!value) value = LoadLanes(n, ramp, type, guard);
  }
  return operations_.FromMemory(value, dtype);
}

// Emits a scalar load. Where the guard fails, it loads the first element of the buffer instead.
llvm::Value* Expressions::LoadScalar(const Load& n, llvm::Type* type, llvm::Value* guard) {
  const Expr& index = n.indices[0];
  Addresses::Address address = guard ? addresses_.Element(n.buffer, Index(index)) : addresses_.Of(n.buffer, index);
  if (guard) {
    if (guard->getType()->isVectorTy()) guard = builder_.CreateOrReduce(guard);
    llvm::Value* first = bindings_.buffers.at(n.buffer->name).pointer;
    address.pointer = builder_.CreateSelect(guard, address.pointer, first);
  }
  return builder_.CreateAlignedLoad(type, address.pointer, address.alignment);
}

llvm::Value* Expressions::LoadContiguous(const Load& n, const Ramp& ramp, llvm::Type* type, llvm::Value* guard) {
  Addresses::Address address = addresses_.Of(n.buffer, ramp.base);
  if (!guard) return builder_.CreateAlignedLoad(type, address.pointer, address.alignment);
  const BufferMemory& memory = bindings_.buffers.at(n.buffer->name);
  if (!guard->getType()->isVectorTy() && memory.elements >= LaneCount(type)) {
    address.pointer = builder_.CreateSelect(guard, address.pointer, memory.pointer);
    return builder_.CreateAlignedLoad(type, address.pointer, address.alignment);
  }
  llvm::Value* mask = operations_.Splat(guard, LaneCount(type));
  return builder_.CreateMaskedLoad(type, address.pointer, llvm::Align(n.buffer->dtype.Bytes()), mask,
                                   llvm::Constant::getNullValue(type));
}

// Emits one load per lane. A lane whose guard fails loads the first element of the buffer instead.
llvm::Value* Expressions::LoadLanes(const Load& n, const Ramp* ramp, llvm::Type* type, llvm::Value* guard) {
  const int lanes = LaneCount(type);
  llvm::Value* indices = Value(n.indices[0]);
  if (guard) {
    indices = builder_.CreateSelect(operations_.Splat(guard, lanes), indices,
                                    llvm::Constant::getNullValue(indices->getType()));
  }
  llvm::Value* gathered = llvm::PoisonValue::get(type);
  for (int lane = 0; lane < lanes; ++lane) {
    Addresses::Address address = ramp && !guard
                                     ? addresses_.Of(n.buffer, ramp->base + ramp->stride * Expr(lane))
                                     : addresses_.Element(n.buffer, builder_.CreateExtractElement(indices, lane));
    llvm::Value* element = builder_.CreateAlignedLoad(operations_.MemoryType(n.buffer->dtype), address.pointer,
                                                      llvm::Align(n.buffer->dtype.Bytes()));
    gathered = builder_.CreateInsertElement(gathered, element, lane);
  }
  return gathered;
}

}  // namespace autotune
