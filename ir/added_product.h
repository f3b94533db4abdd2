// Recognizes the step of a sum of products. Pure; thread-safe.
#pragma once
#include <optional>

#include "ir/dot.h"
#include "ir/stmt.h"
#include "ir/visit.h"

namespace autotune {

// A store that adds a product to the element that it writes: y[i] = y[i] + a * b, in any order, or fma(a, b, y[i]).
struct AddedProduct {
  Expr sum, a, b;  // sum: the load y[i]
};

// Returns nothing if the store does something else.
inline std::optional<AddedProduct> AddedProductOf(const Store& store) {
  const auto is_sum = [&](const Expr& e) {
    const Load* load = e.As<Load>();
    if (!load || !load->buffer.Same(store.buffer) || load->indices.size() != store.indices.size()) return false;
    for (size_t d = 0; d < load->indices.size(); ++d)
      if (!Equal(load->indices[d], store.indices[d])) return false;
    return true;
  };
  const Call* fma = store.value.As<Call>();
  if (fma && fma->op == Op::kFma && is_sum(fma->args[2])) return AddedProduct{fma->args[2], fma->args[0], fma->args[1]};
  const Binary* sum = store.value.As<Binary>();
  if (!sum || sum->op != BinaryOp::kAdd) return std::nullopt;
  for (const bool swapped : {false, true}) {
    const Expr &old = swapped ? sum->b : sum->a, &added = swapped ? sum->a : sum->b;
    const Binary* product = added.As<Binary>();
    if (is_sum(old) && product && product->op == BinaryOp::kMul) return AddedProduct{old, product->a, product->b};
  }
  return std::nullopt;
}

// Returns the load of a small number (ir/dot.h), by one index, that `factor` widens to the type of sums; null if it is
// something else.
inline const Load* SmallFactor(const Expr& factor) {
  const Cast* cast = factor.As<Cast>();
  const Load* load = cast ? cast->a.As<Load>() : nullptr;
  if (!load || load->indices.size() != 1) return nullptr;
  const DType type = load->buffer->dtype;
  return DotGroup(type) > 0 && factor.dtype().Element() == SumType(type, type) ? load : nullptr;
}

// Returns the load in an expression of bytes that takes a part of each byte, shifted and masked by numbers; null if it
// is something else.
inline const Load* PartOfBytes(const Expr& e) {
  const Binary* part = e.As<Binary>();
  while (part && (part->op == BinaryOp::kShr || part->op == BinaryOp::kBitAnd) && !HasNode<Load>(part->b)) {
    if (const Load* load = part->a.As<Load>()) return IsByte(load->buffer->dtype) ? load : nullptr;
    part = part->a.As<Binary>();
  }
  return nullptr;
}

// Returns the type of the small numbers (ir/dot.h) of which the program adds products, i8 for bytes of any sign, i16 or
// bf16; nothing if it adds none. CPUs may multiply these several times as fast as f32.
inline std::optional<DType> SmallProductsOf(const Stmt& body) {
  std::optional<DType> found;
  const auto small = [](const Expr& factor) -> std::optional<DType> {
    const Cast* cast = factor.As<Cast>();
    if (!cast || !cast->a.As<Load>() || DotGroup(cast->a.dtype().Element()) == 0) return std::nullopt;
    return IsByte(cast->a.dtype().Element()) ? DType::Int(8) : cast->a.dtype().Element();
  };
  Walk(body, [&](const Stmt& s) {
    const Store* store = s.As<Store>();
    const std::optional<AddedProduct> added = store ? AddedProductOf(*store) : std::nullopt;
    if (added && small(added->a) && small(added->a) == small(added->b)) found = small(added->a);
    return !found;
  });
  return found;
}

}  // namespace autotune
