#include "arith/region.h"

#include <algorithm>
#include <cstdlib>

#include "ir/int_math.h"

namespace autotune {

std::optional<Region> RegionOf(const Expr& e, const RegionMap& map, const Ranges& ranges) {
  if (const int64_t* value = AsInt(e)) return Region{LinearForm(*value), 0};
  if (const Var* var = e.As<Var>()) {
    for (const auto& [name, region] : map) {
      if (name == var->name) return region;
    }
    return Region{Normalize(e, ranges), 0};
  }
  const Binary* b = e.As<Binary>();
  if (!b) return std::nullopt;
  if (b->op == BinaryOp::kAdd || b->op == BinaryOp::kSub || b->op == BinaryOp::kMul) {
    // Normalizes to one sum, so that two occurrences of a variable are combined.
    LinearForm sum = Normalize(e, {});
    Region total{LinearForm(sum.constant), 0};
    for (const LinearForm::Term& t : sum.terms) {
      if (t.atom.As<Binary>() && t.atom.As<Binary>()->op == BinaryOp::kMul) return std::nullopt;
      std::optional<Region> r = RegionOf(t.atom, map, ranges);
      if (!r) return std::nullopt;
      total.min.Add(r->min, t.coefficient);
      if (t.coefficient < 0) total.min.constant += t.coefficient * r->span;
      total.span += std::abs(t.coefficient) * r->span;
    }
    return total;
  }
  std::optional<Region> x = RegionOf(b->a, map, ranges);
  const int64_t* c = AsInt(b->b);
  if (!c) return std::nullopt;
  switch (b->op) {
    case BinaryOp::kFloorDiv: {
      if (!x || *c <= 0) return std::nullopt;
      const LinearForm rest = Divide(x->min, *c).rest;
      std::optional<Bounds> offset = BoundsOf(rest, ranges);
      int64_t worst = offset && offset->low >= 0 ? std::min(offset->high, *c - 1) : *c - 1;
      return Region{NormalizeDiv(x->min, *c, ranges), (x->span + worst) / *c};
    }
    case BinaryOp::kFloorMod: {
      if (*c <= 0) return std::nullopt;
      Region all{LinearForm(), *c - 1};
      if (!x || x->span >= *c) return all;
      const LinearForm rest = Divide(x->min, *c).rest;
      // The values do not wrap if the offset within a period of c, plus the span, stays below c.
      std::optional<Bounds> offset = BoundsOf(rest, ranges);
      if (offset && offset->low >= 0 && offset->high + x->span < *c) return Region{rest, x->span};
      if (x->span == 0) return Region{NormalizeMod(x->min, *c, ranges), 0};
      return all;
    }
    case BinaryOp::kMin:
    case BinaryOp::kMax: {
      if (!x) return std::nullopt;
      return Region{Normalize(MakeBinary(b->op, x->min.InOrder(), b->b), ranges), x->span};
    }
    default:
      return std::nullopt;
  }
}

std::optional<Region> Union(const Region& a, const Region& b) {
  LinearForm distance = b.min;
  distance.Add(a.min, -1);
  if (!distance.IsConst()) return std::nullopt;
  return Union(a, b, distance.constant);
}

Region Union(const Region& a, const Region& b, int64_t distance) {
  const int64_t end = std::max(a.span, b.span + distance);
  return distance >= 0 ? Region{a.min, end} : Region{b.min, end - distance};
}

std::optional<Parts> PartsOf(const LinearForm& form, const Ranges& running) {
  auto is_fixed = [&](const Name& var) { return ExtentOf(running, var) == nullptr; };
  Parts parts;
  parts.fixed.constant = form.constant;
  for (const LinearForm::Term& t : form.terms) {
    if (!UsesAny(t.atom, running)) {
      parts.fixed.terms.emplace_back(t);
    } else if (t.atom.As<Var>() || (!HasNode<Load>(t.atom) && !UsesVar(t.atom, is_fixed))) {
      parts.running.terms.emplace_back(t);
    } else {
      return std::nullopt;
    }
  }
  return parts;
}

std::optional<Region> DenseRegionOf(const LinearForm& form, const Ranges& running) {
  std::optional<Parts> parts = PartsOf(form, running);
  if (!parts) return std::nullopt;
  SmallVector<std::pair<int64_t, int64_t>, 8> digits;  // coefficient, extent
  for (const LinearForm::Term& t : parts->running.terms) {
    const Var* var = t.atom.As<Var>();
    if (!var || t.coefficient < 0) return std::nullopt;
    digits.emplace_back(t.coefficient, *ExtentOf(running, var->name));
  }
  std::sort(digits.begin(), digits.end());
  Region region{std::move(parts->fixed), 0};
  for (auto [coefficient, extent] : digits) {
    if (extent == 1) continue;
    if (coefficient > region.span + 1) return std::nullopt;
    region.span += coefficient * (extent - 1);
  }
  return region;
}

}  // namespace autotune
