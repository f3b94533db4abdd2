#include <algorithm>
#include <bit>

#include "codegen/llvm/emitter.h"

namespace autotune {
namespace {

int64_t FloorModOf(int64_t a, int64_t b) { return (a % b + b) % b; }

}  // namespace

std::optional<Lanes> LanesOf(const Expr& index) {
  const auto count = static_cast<size_t>(index.dtype().lanes);
  if (const Broadcast* n = index.As<Broadcast>()) return Lanes{n->a, std::vector<int64_t>(count, 0)};
  if (const Ramp* n = index.As<Ramp>()) {
    const int64_t* stride = AsInt(n->stride);
    if (!stride) return std::nullopt;
    Lanes lanes{n->base, {}};
    for (size_t i = 0; i < count; ++i) lanes.offsets.push_back(static_cast<int64_t>(i) * *stride);
    return lanes;
  }
  const Binary* n = index.As<Binary>();
  if (!n || count == 1) return std::nullopt;
  std::optional<Lanes> a = LanesOf(n->a), b = LanesOf(n->b);
  if (!a || !b) return std::nullopt;
  auto same = [](const Lanes& l) {
    return std::all_of(l.offsets.begin(), l.offsets.end(), [](auto o) { return o == 0; });
  };
  auto constant = [&](const Lanes& l) { return same(l) ? AsInt(l.base) : nullptr; };
  switch (n->op) {
    case BinaryOp::kAdd:
    case BinaryOp::kSub: {
      const int64_t sign = n->op == BinaryOp::kAdd ? 1 : -1;
      a->base = MakeBinary(n->op, a->base, b->base);
      for (size_t i = 0; i < count; ++i) a->offsets[i] += sign * b->offsets[i];
      return a;
    }
    case BinaryOp::kMul: {
      if (!constant(*b)) std::swap(a, b);
      const int64_t* factor = constant(*b);
      if (!factor) return std::nullopt;
      a->base = a->base * b->base;
      for (int64_t& offset : a->offsets) offset *= *factor;
      return a;
    }
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod: {
      const int64_t *first = AsInt(a->base), *divisor = constant(*b);
      if (!first || !divisor || *divisor <= 0) return std::nullopt;
      for (int64_t& offset : a->offsets) {
        int64_t at = *first + offset, rest = FloorModOf(at, *divisor);
        offset = n->op == BinaryOp::kFloorMod ? rest : (at - rest) / *divisor;
      }
      a->base = Expr(0);
      return a;
    }
    default:
      return std::nullopt;
  }
}

// Element i lies i elements behind the lowest one. It is read if some lane that reads it is guarded true.
llvm::Value* FunctionEmitter::ElementsGuarded(llvm::Value* guard, const Lanes& at, int64_t low) {
  const size_t count = at.offsets.size();
  std::vector<std::vector<int>> readers(count);
  for (size_t lane = 0; lane < count; ++lane)
    readers[static_cast<size_t>(at.offsets[lane] - low)].push_back(static_cast<int>(lane));
  llvm::Value *none = llvm::Constant::getNullValue(guard->getType()), *mask = nullptr;
  for (size_t turn = 0; turn < count; ++turn) {
    std::vector<int> lanes;
    bool any = false;
    for (const std::vector<int>& of_element : readers) {
      lanes.push_back(turn < of_element.size() ? of_element[turn] : static_cast<int>(count));
      any |= turn < of_element.size();
    }
    if (!any) break;
    llvm::Value* reads = builder_.CreateShuffleVector(guard, none, lanes);
    mask = mask ? builder_.CreateOr(mask, reads) : reads;
  }
  return mask;
}

llvm::Value* FunctionEmitter::LoadNeighbours(const Buffer& buffer, const Lanes& at, llvm::Type* type) {
  const auto count = static_cast<int64_t>(at.offsets.size());
  auto [low, high] = std::minmax_element(at.offsets.begin(), at.offsets.end());
  const int64_t span = *high - *low;
  const Slot& slot = slots_.at(buffer->name);
  llvm::Value* guard = guard_.condition;
  if (!std::has_single_bit(static_cast<uint64_t>(count))) return nullptr;
  if (span >= count || slot.elements < count || buffer->scope == Scope::kRegister) return nullptr;
  // All of an aligned vector may be read if one element may: of others, what lies behind the last lane is left out.
  const int64_t bytes = buffer->dtype.Bytes();
  int64_t before = FloorModOf(ToLinear(at.base + Expr(*low)).constant, count);
  Address address = AddressOf(buffer, at.base + Expr(*low - before));
  const bool by_lane = guard && guard->getType()->isVectorTy();
  const bool whole = !by_lane && before + span < count && slot.elements % count == 0 &&
                     static_cast<int64_t>(address.alignment.value()) >= count * bytes;
  if (!whole) {
    before = 0;
    address = AddressOf(buffer, at.base + Expr(*low));
  }
  if (guard && !by_lane) address.pointer = builder_.CreateSelect(guard, address.pointer, slot.pointer);
  llvm::Value* read = nullptr;
  if (whole) {
    read = builder_.CreateAlignedLoad(type, address.pointer, address.alignment);
  } else {
    llvm::Value* mask = by_lane ? ElementsGuarded(guard, at, *low) : nullptr;
    if (!mask) {
      std::vector<llvm::Constant*> used;
      for (int64_t i = 0; i < count; ++i) used.push_back(builder_.getInt1(i <= span));
      mask = llvm::ConstantVector::get(used);
    }
    read = builder_.CreateMaskedLoad(type, address.pointer, llvm::Align(static_cast<uint64_t>(bytes)), mask,
                                     llvm::Constant::getNullValue(type));
  }
  std::vector<int> order;
  for (int64_t offset : at.offsets) order.push_back(static_cast<int>(offset - *low + before));
  return builder_.CreateShuffleVector(read, order);
}

}  // namespace autotune
