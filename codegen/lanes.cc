#include "codegen/lanes.h"

#include <algorithm>

#include "ir/int_math.h"

namespace autotune {
namespace {

bool AllEqual(const Lanes& lanes) {
  return std::all_of(lanes.offsets.begin(), lanes.offsets.end(), [](int64_t offset) { return offset == 0; });
}

// Returns the value of the lanes if it is one constant for all of them, else null.
const int64_t* ConstantOf(const Lanes& lanes) { return AllEqual(lanes) ? AsInt(lanes.base) : nullptr; }

std::optional<Lanes> LanesOfRamp(const Ramp& ramp, size_t count) {
  const int64_t* stride = AsInt(ramp.stride);
  if (!stride) return std::nullopt;
  Lanes lanes{ramp.base, {}};
  for (size_t i = 0; i < count; ++i) lanes.offsets.push_back(static_cast<int64_t>(i) * *stride);
  return lanes;
}

std::optional<Lanes> LanesOfBinary(const Binary& n) {
  std::optional<Lanes> a = LanesOf(n.a), b = LanesOf(n.b);
  if (!a || !b) return std::nullopt;
  switch (n.op) {
    case BinaryOp::kAdd:
    case BinaryOp::kSub: {
      const int64_t sign = n.op == BinaryOp::kAdd ? 1 : -1;
      a->base = MakeBinary(n.op, a->base, b->base);
      for (size_t i = 0; i < a->offsets.size(); ++i) a->offsets[i] += sign * b->offsets[i];
      return a;
    }
    case BinaryOp::kMul: {
      if (!ConstantOf(*b)) std::swap(a, b);
      const int64_t* factor = ConstantOf(*b);
      if (!factor) return std::nullopt;
      a->base = a->base * b->base;
      for (int64_t& offset : a->offsets) offset *= *factor;
      return a;
    }
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod: {
      const int64_t *first = AsInt(a->base), *divisor = ConstantOf(*b);
      if (!first || !divisor || *divisor <= 0) return std::nullopt;
      for (int64_t& offset : a->offsets) {
        int64_t at = *first + offset, rest = FloorModulo(at, *divisor);
        offset = n.op == BinaryOp::kFloorMod ? rest : (at - rest) / *divisor;
      }
      a->base = Expr(0);
      return a;
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<Lanes> LanesOf(const Expr& index) {
  const auto count = static_cast<size_t>(index.dtype().lanes);
  if (const Broadcast* n = index.As<Broadcast>()) return Lanes{n->a, std::vector<int64_t>(count, 0)};
  if (const Ramp* n = index.As<Ramp>()) return LanesOfRamp(*n, count);
  const Binary* n = index.As<Binary>();
  return n && count > 1 ? LanesOfBinary(*n) : std::nullopt;
}

std::optional<LaneComparison> ComparisonOfLanes(const Expr& a, const Expr& b) {
  // A smaller distance compares with a scalar that is clamped to 32 bits as it compares with the scalar itself.
  constexpr int64_t kFar = 1 << 30;
  const std::optional<Lanes> left = LanesOf(a), right = LanesOf(b);
  if (!left || !right) return std::nullopt;
  LaneComparison comparison{{}, ToLinear(right->base - left->base)};
  for (size_t i = 0; i < left->offsets.size(); ++i) {
    const int64_t distance = left->offsets[i] - right->offsets[i];
    if (distance >= kFar || distance <= -kFar) return std::nullopt;
    comparison.distances.push_back(distance);
  }
  return comparison;
}

}  // namespace autotune
