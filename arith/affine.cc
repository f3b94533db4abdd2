#include "arith/affine.h"

#include <algorithm>
#include <numeric>

#include "arith/context.h"
#include "ir/int_math.h"

namespace autotune {
namespace {

LinearForm Atom(const Expr& e) {
  LinearForm form;
  form.terms.emplace_back(e, 1);
  return form;
}

bool IsWithin(const LinearForm& sum, int64_t low, int64_t high, const Ranges& ranges) {
  std::optional<Bounds> bounds = BoundsOf(sum, ranges);
  return bounds && bounds->low >= low && bounds->high <= high;
}

}  // namespace

Division Divide(const LinearForm& form, int64_t c) {
  Division d;
  for (const LinearForm::Term& t : form.terms) {
    if (t.coefficient % c == 0) {
      d.quotient.terms.emplace_back(t.atom, t.coefficient / c);
    } else {
      d.rest.terms.emplace_back(t);
    }
  }
  d.quotient.constant = FloorDivide(form.constant, c);
  d.rest.constant = FloorModulo(form.constant, c);
  return d;
}

LinearForm NormalizeDiv(const LinearForm& form, int64_t c, const Ranges& ranges) {
  if (c == 1) return form;
  Division by_c = Divide(form, c);
  LinearForm& quotient = by_c.quotient;
  const LinearForm& rest = by_c.rest;
  if (IsWithin(rest, 0, c - 1, ranges)) return std::move(quotient);
  if (rest.IsAtom()) {
    if (arith::DivMod inner = arith::AsDivMod(rest.terms[0].atom); inner && inner.is_div) {
      quotient.Add(FloorDiv(inner.node->a, Expr(inner.divisor * c)), 1);
      return std::move(quotient);
    }
  }
  // Let g divide c, and rest = g * high + low. If low stays in [0, g), rest // c = high // (c / g).
  for (const LinearForm::Term& t : rest.terms) {
    int64_t g = std::gcd(t.coefficient, c);
    if (g == 1) continue;
    Division by_g = Divide(rest, g);
    if (IsWithin(by_g.rest, 0, g - 1, ranges)) {
      quotient.Add(FloorDiv(by_g.quotient.InOrder(), Expr(c / g)), 1);
      return std::move(quotient);
    }
  }
  quotient.Add(FloorDiv(rest.InOrder(), Expr(c)), 1);
  return std::move(quotient);
}

LinearForm NormalizeMod(const LinearForm& form, int64_t c, const Ranges& ranges) {
  if (c == 1) return {};
  LinearForm rest = Divide(form, c).rest;
  if (IsWithin(rest, 0, c - 1, ranges)) return rest;
  if (rest.IsAtom()) {
    arith::DivMod inner = arith::AsDivMod(rest.terms[0].atom);
    if (inner && !inner.is_div && inner.divisor % c == 0) return Atom(FloorMod(inner.node->a, Expr(c)));
  }
  return Atom(FloorMod(rest.InOrder(), Expr(c)));
}

LinearForm Normalize(const Expr& e, const Ranges& ranges) {
  if (const int64_t* value = AsInt(e)) return LinearForm(*value);
  // The variable of a loop of extent 1 stays too, so that the form of a result does not depend on tile sizes.
  if (e.As<Var>()) return Atom(e);
  if (const Unary* unary = e.As<Unary>()) {
    LinearForm sum;
    sum.Add(Normalize(unary->a, ranges), -1);
    return sum;
  }
  const Binary* b = e.As<Binary>();
  if (!b) return Atom(e);
  switch (b->op) {
    case BinaryOp::kAdd:
    case BinaryOp::kSub: {
      LinearForm sum = Normalize(b->a, ranges);
      sum.Add(Normalize(b->b, ranges), b->op == BinaryOp::kAdd ? 1 : -1);
      return sum;
    }
    case BinaryOp::kMul: {
      LinearForm x = Normalize(b->a, ranges), y = Normalize(b->b, ranges);
      if (!x.IsConst() && !y.IsConst()) return Atom(x.InOrder() * y.InOrder());
      LinearForm sum;
      sum.Add(x.IsConst() ? y : x, x.IsConst() ? x.constant : y.constant);
      return sum;
    }
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod: {
      LinearForm x = Normalize(b->a, ranges);
      const int64_t* c = AsInt(b->b);
      if (!c || *c <= 0) return Atom(MakeBinary(b->op, x.InOrder(), b->b));
      return b->op == BinaryOp::kFloorDiv ? NormalizeDiv(x, *c, ranges) : NormalizeMod(x, *c, ranges);
    }
    case BinaryOp::kMin:
    case BinaryOp::kMax: {
      LinearForm x = Normalize(b->a, ranges), y = Normalize(b->b, ranges), difference = x;
      difference.Add(y, -1);
      if (std::optional<Bounds> d = BoundsOf(difference, ranges)) {
        if (d->high <= 0) return b->op == BinaryOp::kMin ? x : y;
        if (d->low >= 0) return b->op == BinaryOp::kMin ? y : x;
      }
      return Atom(MakeBinary(b->op, x.InOrder(), y.InOrder()));
    }
    default:
      return Atom(e);
  }
}

Expr Normalized(const Expr& e, const Ranges& ranges) { return Normalize(e, ranges).InOrder(); }

std::optional<Bounds> BoundsOf(const LinearForm& sum, const Ranges& ranges) {
  Bounds total{sum.constant, sum.constant};
  for (const LinearForm::Term& t : sum.terms) {
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
    const int64_t* extent = ExtentOf(ranges, var->name);
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
  LinearForm difference = Normalize(b->a, ranges);
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

}  // namespace autotune
