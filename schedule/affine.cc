#include "schedule/affine.h"

#include <algorithm>
#include <numeric>

#include "ir/int_math.h"
#include "support/check.h"

namespace autotune::schedule {
namespace {

std::optional<int64_t> ExtentOf(const Name& var, const Ranges& ranges) {
  for (auto it = ranges.rbegin(); it != ranges.rend(); ++it) {
    if (it->var == var) return it->extent;
  }
  return std::nullopt;
}

Sum Constant(int64_t value) {
  Sum sum;
  sum.constant = value;
  return sum;
}
Sum Atom(const Expr& e) {
  Sum sum;
  sum.terms.push_back({e, 1});
  return sum;
}

bool IsWithin(const Sum& sum, int64_t low, int64_t high, const Ranges& ranges) {
  std::optional<Bounds> bounds = BoundsOf(sum, ranges);
  return bounds && bounds->low >= low && bounds->high <= high;
}

// sum = quotient * c + rest, rest having the terms that c does not divide and a constant in [0, c).
void Divide(const Sum& sum, int64_t c, Sum* quotient, Sum* rest) {
  for (const Sum::Term& t : sum.terms) {
    if (t.coefficient % c == 0) {
      quotient->terms.push_back({t.atom, t.coefficient / c});
    } else {
      rest->terms.push_back(t);
    }
  }
  quotient->constant = FloorDivide(sum.constant, c);
  rest->constant = FloorModulo(sum.constant, c);
}

const Binary* AsDivBy(const Expr& e, BinaryOp op, int64_t* divisor) {
  const Binary* b = e.As<Binary>();
  const int64_t* c = b && b->op == op ? AsInt(b->b) : nullptr;
  if (!c || *c <= 0) return nullptr;
  *divisor = *c;
  return b;
}

Sum NormalizeDiv(const Sum& sum, int64_t c, const Ranges& ranges) {
  if (c == 1) return sum;
  Sum quotient, rest;
  Divide(sum, c, &quotient, &rest);
  if (IsWithin(rest, 0, c - 1, ranges)) return quotient;
  int64_t inner;
  if (rest.terms.size() == 1 && rest.terms[0].coefficient == 1 && rest.constant == 0) {
    if (const Binary* div = AsDivBy(rest.terms[0].atom, BinaryOp::kFloorDiv, &inner)) {
      quotient.AddTerm(FloorDiv(div->a, Expr(inner * c)), 1);
      return quotient;
    }
  }
  // Terms that a common factor g of all others and c divides stay; the others are smaller than g and vanish.
  for (const Sum::Term& t : rest.terms) {
    int64_t g = std::gcd(t.coefficient, c);
    if (g == 1) continue;
    Sum scaled, small;
    Divide(rest, g, &scaled, &small);
    if (IsWithin(small, 0, g - 1, ranges)) {
      quotient.AddTerm(FloorDiv(ToExpr(scaled), Expr(c / g)), 1);
      return quotient;
    }
  }
  quotient.AddTerm(FloorDiv(ToExpr(rest), Expr(c)), 1);
  return quotient;
}

Sum NormalizeMod(const Sum& sum, int64_t c, const Ranges& ranges) {
  if (c == 1) return {};
  Sum quotient, rest;
  Divide(sum, c, &quotient, &rest);
  if (IsWithin(rest, 0, c - 1, ranges)) return rest;
  int64_t inner;
  if (rest.terms.size() == 1 && rest.terms[0].coefficient == 1 && rest.constant == 0) {
    const Binary* mod = AsDivBy(rest.terms[0].atom, BinaryOp::kFloorMod, &inner);
    if (mod && inner % c == 0) return Atom(FloorMod(mod->a, Expr(c)));
  }
  return Atom(FloorMod(ToExpr(rest), Expr(c)));
}

}  // namespace

void Sum::AddTerm(const Expr& atom, int64_t coefficient) {
  if (const int64_t* value = AsInt(atom)) {
    constant += *value * coefficient;
    return;
  }
  for (size_t i = 0; i < terms.size(); ++i) {
    if (!autotune::Equal(terms[i].atom, atom)) continue;
    terms[i].coefficient += coefficient;
    if (terms[i].coefficient == 0) terms.erase(terms.begin() + i);
    return;
  }
  if (coefficient != 0) terms.push_back({atom, coefficient});
}

void Sum::Add(const Sum& other, int64_t scale) {
  for (const Term& t : other.terms) AddTerm(t.atom, t.coefficient * scale);
  constant += other.constant * scale;
}

Expr ToExpr(const Sum& sum) {
  Expr e;
  for (const Sum::Term& t : sum.terms) {
    if (!e) {
      e = t.atom * Expr(t.coefficient);
    } else if (t.coefficient > 0) {
      e = e + t.atom * Expr(t.coefficient);
    } else {
      e = e - t.atom * Expr(-t.coefficient);
    }
  }
  if (!e) return Expr(sum.constant);
  return sum.constant < 0 ? e - Expr(-sum.constant) : e + Expr(sum.constant);
}

Sum Normalize(const Expr& e, const Ranges& ranges) {
  if (const int64_t* value = AsInt(e)) return Constant(*value);
  if (e.As<Var>()) return Atom(e);  // of a loop of extent 1 too: what a loop feeds must not depend on tile sizes
  if (const Unary* unary = e.As<Unary>()) {
    Sum sum;
    sum.Add(Normalize(unary->a, ranges), -1);
    return sum;
  }
  const Binary* b = e.As<Binary>();
  if (!b) return Atom(e);
  switch (b->op) {
    case BinaryOp::kAdd:
    case BinaryOp::kSub: {
      Sum sum = Normalize(b->a, ranges);
      sum.Add(Normalize(b->b, ranges), b->op == BinaryOp::kAdd ? 1 : -1);
      return sum;
    }
    case BinaryOp::kMul: {
      Sum x = Normalize(b->a, ranges), y = Normalize(b->b, ranges);
      if (!x.IsConstant() && !y.IsConstant()) return Atom(ToExpr(x) * ToExpr(y));
      Sum sum;
      sum.Add(x.IsConstant() ? y : x, x.IsConstant() ? x.constant : y.constant);
      return sum;
    }
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod: {
      Sum x = Normalize(b->a, ranges);
      const int64_t* c = AsInt(b->b);
      if (!c || *c <= 0) return Atom(MakeBinary(b->op, ToExpr(x), b->b));
      return b->op == BinaryOp::kFloorDiv ? NormalizeDiv(x, *c, ranges) : NormalizeMod(x, *c, ranges);
    }
    case BinaryOp::kMin:
    case BinaryOp::kMax: {
      Sum x = Normalize(b->a, ranges), y = Normalize(b->b, ranges), difference = x;
      difference.Add(y, -1);
      if (std::optional<Bounds> d = BoundsOf(difference, ranges)) {
        if (d->high <= 0) return b->op == BinaryOp::kMin ? x : y;
        if (d->low >= 0) return b->op == BinaryOp::kMin ? y : x;
      }
      return Atom(MakeBinary(b->op, ToExpr(x), ToExpr(y)));
    }
    default:
      return Atom(e);
  }
}

Expr Normalized(const Expr& e, const Ranges& ranges) { return ToExpr(Normalize(e, ranges)); }

std::optional<Bounds> BoundsOf(const Sum& sum, const Ranges& ranges) {
  Bounds total{sum.constant, sum.constant};
  for (const Sum::Term& t : sum.terms) {
    std::optional<Bounds> b = BoundsOf(t.atom, ranges);
    if (!b) return std::nullopt;
    int64_t x = b->low * t.coefficient, y = b->high * t.coefficient;
    total.low += std::min(x, y);
    total.high += std::max(x, y);
  }
  return total;
}

std::optional<Bounds> BoundsOf(const Expr& e, const Ranges& ranges) {
  if (const int64_t* value = AsInt(e)) return Bounds{*value, *value};
  if (const Var* var = e.As<Var>()) {
    std::optional<int64_t> extent = ExtentOf(var->name, ranges);
    return extent ? std::optional(Bounds{0, *extent - 1}) : std::nullopt;
  }
  if (const Select* select = e.As<Select>()) {
    std::optional<Bounds> x = BoundsOf(select->a, ranges), y = BoundsOf(select->b, ranges);
    if (!x || !y) return std::nullopt;
    return Bounds{std::min(x->low, y->low), std::max(x->high, y->high)};
  }
  const Binary* b = e.As<Binary>();
  if (!b) return std::nullopt;
  std::optional<Bounds> x = BoundsOf(b->a, ranges);
  const int64_t* c = AsInt(b->b);
  if (b->op == BinaryOp::kFloorMod && c && *c > 0) {
    if (x && FloorDivide(x->low, *c) == FloorDivide(x->high, *c)) {
      return Bounds{FloorModulo(x->low, *c), FloorModulo(x->high, *c)};
    }
    return Bounds{0, *c - 1};
  }
  std::optional<Bounds> y = BoundsOf(b->b, ranges);
  if (!x || !y) return std::nullopt;
  switch (b->op) {
    case BinaryOp::kAdd:
      return Bounds{x->low + y->low, x->high + y->high};
    case BinaryOp::kSub:
      return Bounds{x->low - y->high, x->high - y->low};
    case BinaryOp::kMul: {
      auto [low, high] = std::minmax({x->low * y->low, x->low * y->high, x->high * y->low, x->high * y->high});
      return Bounds{low, high};
    }
    case BinaryOp::kFloorDiv:
      if (y->low != y->high || y->low <= 0) return std::nullopt;
      return Bounds{FloorDivide(x->low, y->low), FloorDivide(x->high, y->low)};
    case BinaryOp::kMin:
      return Bounds{std::min(x->low, y->low), std::min(x->high, y->high)};
    case BinaryOp::kMax:
      return Bounds{std::max(x->low, y->low), std::max(x->high, y->high)};
    default:
      return std::nullopt;
  }
}

bool Proves(const Expr& condition, const Ranges& ranges) {
  if (const int64_t* value = AsInt(condition)) return *value != 0;
  const Binary* b = condition.As<Binary>();
  if (!b) return false;
  if (b->op == BinaryOp::kAnd) return Proves(b->a, ranges) && Proves(b->b, ranges);
  if (b->op == BinaryOp::kOr) return Proves(b->a, ranges) || Proves(b->b, ranges);
  if (!IsComparison(b->op) || !b->a.dtype().IsIndex()) return false;
  Sum difference = Normalize(b->a, ranges);
  difference.Add(Normalize(b->b, ranges), -1);
  std::optional<Bounds> d = BoundsOf(difference, ranges);
  if (!d) return false;
  switch (b->op) {
    case BinaryOp::kLt:
      return d->high < 0;
    case BinaryOp::kLe:
      return d->high <= 0;
    case BinaryOp::kGt:
      return d->low > 0;
    case BinaryOp::kGe:
      return d->low >= 0;
    case BinaryOp::kEq:
      return d->low == 0 && d->high == 0;
    case BinaryOp::kNe:
      return d->low > 0 || d->high < 0;
    default:
      return false;
  }
}

Expr NormalizeCondition(const Expr& condition, const VarMap& map, const Ranges& ranges) {
  std::vector<Expr> kept;
  for (const Expr& conjunct : Conjuncts(condition)) {
    Expr e = Substitute(conjunct, map);
    if (Proves(e, ranges)) continue;
    const Binary* b = e.As<Binary>();
    if (b && IsComparison(b->op) && b->a.dtype().IsIndex()) {
      e = MakeBinary(b->op, Normalized(b->a, ranges), Normalized(b->b, ranges));
    }
    kept.push_back(std::move(e));
  }
  return AndAll(kept);
}

bool UsesAny(const Expr& e, const Ranges& vars) {
  return std::any_of(vars.begin(), vars.end(), [&](const LoopRange& v) { return UsesVar(e, v.var); });
}

std::optional<Region> RegionOf(const Expr& e, const RegionMap& map, const Ranges& ranges) {
  if (const int64_t* value = AsInt(e)) return Region{Constant(*value), 0};
  if (const Var* var = e.As<Var>()) {
    for (const auto& [name, region] : map) {
      if (name == var->name) return region;
    }
    return Region{Normalize(e, ranges), 0};
  }
  const Binary* b = e.As<Binary>();
  if (!b) return std::nullopt;
  if (b->op == BinaryOp::kAdd || b->op == BinaryOp::kSub || b->op == BinaryOp::kMul) {
    // As one sum, so that a variable that occurs twice counts once.
    Sum sum = Normalize(e, {});
    Region total{Constant(sum.constant), 0};
    for (const Sum::Term& t : sum.terms) {
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
      Sum quotient, rest;
      Divide(x->min, *c, &quotient, &rest);
      std::optional<Bounds> offset = BoundsOf(rest, ranges);
      int64_t worst = offset && offset->low >= 0 ? std::min(offset->high, *c - 1) : *c - 1;
      return Region{NormalizeDiv(x->min, *c, ranges), (x->span + worst) / *c};
    }
    case BinaryOp::kFloorMod: {
      if (*c <= 0) return std::nullopt;
      Region all{Sum(), *c - 1};
      if (!x || x->span >= *c) return all;
      Sum quotient, rest;
      Divide(x->min, *c, &quotient, &rest);
      // No wrap while the offset within a period plus the span stays below c.
      std::optional<Bounds> offset = BoundsOf(rest, ranges);
      if (offset && offset->low >= 0 && offset->high + x->span < *c) return Region{rest, x->span};
      if (x->span == 0) return Region{NormalizeMod(x->min, *c, ranges), 0};
      return all;
    }
    case BinaryOp::kMin:
    case BinaryOp::kMax: {
      if (!x) return std::nullopt;
      return Region{Normalize(MakeBinary(b->op, ToExpr(x->min), b->b), ranges), x->span};
    }
    default:
      return std::nullopt;
  }
}

std::optional<Region> Union(const Region& a, const Region& b) {
  Sum distance = b.min;
  distance.Add(a.min, -1);
  if (!distance.IsConstant()) return std::nullopt;
  int64_t d = distance.constant, end = std::max(a.span, b.span + d);
  return d >= 0 ? Region{a.min, end} : Region{b.min, end - d};
}

std::optional<Region> DenseRegionOf(const Sum& sum, const Ranges& running) {
  Region region;
  region.min.constant = sum.constant;
  std::vector<std::pair<int64_t, int64_t>> digits;  // coefficient, extent
  for (const Sum::Term& t : sum.terms) {
    const Var* var = t.atom.As<Var>();
    std::optional<int64_t> extent = var ? ExtentOf(var->name, running) : std::nullopt;
    if (extent && t.coefficient > 0) {
      digits.push_back({t.coefficient, *extent});
    } else if (UsesAny(t.atom, running)) {
      return std::nullopt;
    } else {
      region.min.AddTerm(t.atom, t.coefficient);
    }
  }
  std::sort(digits.begin(), digits.end());
  for (auto [coefficient, extent] : digits) {
    if (extent == 1) continue;
    if (coefficient > region.span + 1) return std::nullopt;
    region.span += coefficient * (extent - 1);
  }
  return region;
}

}  // namespace autotune::schedule
