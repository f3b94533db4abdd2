// Simplification of conditions. Decides comparisons or brings them to one form (`<` and `>=`). Simplifies each part of
// a conjunction or disjunction under the assumption of the other parts. Derives facts about variables from assumptions.
#include <algorithm>

#include "arith/simplifier.h"
#include "ir/int_math.h"
#include "ir/visit.h"

namespace autotune::arith {
namespace {

// Separates the terms by the sign of their coefficients: s = positive - negative + s.constant.
void Sides(const LinearForm& s, LinearForm& positive, LinearForm& negative) {
  for (const Term& term : s.terms) {
    if (term.coefficient > 0) {
      positive.terms.emplace_back(term);
    } else {
      negative.terms.emplace_back(term.atom, -term.coefficient);
    }
  }
}

Expr LessExpr(const LinearForm& s) {  // s < 0
  LinearForm positive, negative;
  Sides(s, positive, negative);
  if (positive.terms.empty()) {
    return MakeBinary(BinaryOp::kGe, negative.ToExpr(), IntConst(s.constant + 1));
  }
  negative.constant = -s.constant;
  return MakeBinary(BinaryOp::kLt, positive.ToExpr(), negative.ToExpr());
}

Expr EqualExpr(const LinearForm& s, bool equal) {  // s == 0 or s != 0
  LinearForm positive, negative;
  Sides(s, positive, negative);
  Expr a = positive.ToExpr(), b = negative.ToExpr();
  int64_t constant = -s.constant;  // positive == negative + constant
  if (positive.terms.empty() || (!negative.terms.empty() && Compare(a, b) > 0)) {
    std::swap(a, b);
    std::swap(positive, negative);
    constant = -constant;
  }
  negative.constant = constant;
  return MakeBinary(equal ? BinaryOp::kEq : BinaryOp::kNe, a, negative.ToExpr());
}

void Flatten(const Expr& e, BinaryOp op, SmallVector<Expr, 8>& out) {
  const Binary* n = e.As<Binary>();
  if (n && n->op == op && e.dtype().lanes == 1) {
    Flatten(n->a, op, out);
    Flatten(n->b, op, out);
  } else {
    out.emplace_back(e);
  }
}

bool IsScalarIndex(const Expr& e) { return e.dtype() == DType::Index(); }

// Returns the negation of a comparison. Only for integers, since NaN compares false.
BinaryOp Negated(BinaryOp op) {
  switch (op) {
    case BinaryOp::kEq:
      return BinaryOp::kNe;
    case BinaryOp::kNe:
      return BinaryOp::kEq;
    case BinaryOp::kLt:
      return BinaryOp::kGe;
    case BinaryOp::kGe:
      return BinaryOp::kLt;
    case BinaryOp::kGt:
      return BinaryOp::kLe;
    default:
      return BinaryOp::kGt;
  }
}

}  // namespace

Expr Simplifier::CompareForms(BinaryOp op, LinearForm s) {
  switch (op) {  // everything but equality becomes s < 0
    case BinaryOp::kLe:
      s.constant -= 1;
      break;
    case BinaryOp::kGt:
      s.Scale(-1);
      break;
    case BinaryOp::kGe:
      s.Scale(-1);
      s.constant -= 1;
      break;
    default:
      break;
  }
  bool equality = op == BinaryOp::kEq || op == BinaryOp::kNe;
  LinearForm high, low;
  while (true) {
    Range r = BoundsOf(s);
    if (equality) {
      if (r.low > 0 || r.high < 0) return BoolConst(op == BinaryOp::kNe);
      if (r.low == 0 && r.high == 0) return BoolConst(op == BinaryOp::kEq);
    } else {
      if (r.high < 0) return BoolConst(true);
      if (r.low >= 0) return BoolConst(false);
    }
    // If s = g * high + low with low in [0, g), then s < 0 exactly if high < 0, so `high` replaces s. Tries the
    // absolute values of the coefficients as g, the greatest first.
    SmallVector<int64_t, 8> tried;
    bool split = false;
    while (!split) {
      int64_t g = 1;
      for (const Term& term : s.terms) {
        int64_t k = term.coefficient < 0 ? -term.coefficient : term.coefficient;
        if (k > g && std::find(tried.begin(), tried.end(), k) == tried.end()) g = k;
      }
      if (g == 1) break;
      tried.emplace_back(g);
      if (!SplitBy(s, g, high, low)) continue;
      if (equality && !low.IsConst()) continue;
      if (equality && low.constant != 0) return BoolConst(op == BinaryOp::kNe);
      s = std::move(high);
      split = true;
    }
    if (split) continue;
    if (s.terms.size() == 1 && !equality) {  // a // c < k exactly if a < k * c
      int64_t k = s.terms[0].coefficient;
      const Binary* n = s.terms[0].atom.As<Binary>();
      const int64_t* c = n && n->op == BinaryOp::kFloorDiv ? AsInt(n->b) : nullptr;
      if (c && *c > 0 && (k == 1 || k == -1) && !IsHuge(*c) && !IsHuge(s.constant) &&
          (s.constant == 0 || *c < kHuge / (std::abs(s.constant) + 1))) {
        LinearForm a = ToLinear(n->a);
        if (!a.Huge()) {
          if (k == 1) {
            a.constant += s.constant * *c;
          } else {
            a.Scale(-1);
            a.constant += (s.constant + 1) * *c - 1;
          }
          s = std::move(a);
          continue;
        }
      }
    }
    return equality ? EqualExpr(s, op == BinaryOp::kEq) : LessExpr(s);
  }
}

Expr Simplifier::SimplifyComparison(const Expr& e, const Binary& n) {
  DType dtype = n.a.dtype();
  if (dtype == DType::Index()) {
    LinearForm a = ToForm(n.a), b = ToForm(n.b);
    if (a.Huge() || b.Huge()) {
      Expr x = Finish(n.a, a), y = Finish(n.b, b);
      return x.Same(n.a) && y.Same(n.b) ? e : MakeBinary(n.op, x, y);
    }
    a.Add(b, -1);
    Recombine(a);
    Expr r = CompareForms(n.op, std::move(a));
    return Compare(r, e) == 0 ? e : r;
  }
  Expr a = Simplify(n.a), b = Simplify(n.b);
  if ((dtype.IsInt() || dtype.IsBool()) && dtype.lanes == 1) {
    if (AsInt(a) && AsInt(b)) return BoolConst(*FoldInt(n.op, *AsInt(a), *AsInt(b), dtype));
    Range x = PlainBounds(a), y = PlainBounds(b);
    bool same = SameAtom(a, b), below = x.high<y.low, above = x.low> y.high;
    switch (n.op) {
      case BinaryOp::kEq:
      case BinaryOp::kNe:
        if (same || below || above) return BoolConst(same == (n.op == BinaryOp::kEq));
        break;
      case BinaryOp::kLt:
      case BinaryOp::kGe:
        if (below || same || x.low >= y.high) return BoolConst(below == (n.op == BinaryOp::kLt));
        break;
      default:
        if (above || same || x.high <= y.low) return BoolConst(above == (n.op == BinaryOp::kGt));
        break;
    }
  }
  return a.Same(n.a) && b.Same(n.b) ? e : MakeBinary(n.op, a, b);
}

Expr Simplifier::FromKnown(Expr e) {
  for (const Context* context : {&base_, static_cast<const Context*>(&own_)}) {
    for (const auto& [condition, value] : context->known) {
      if (SameAtom(condition, e)) return BoolConst(value);
    }
  }
  return e;
}

Expr Simplifier::SimplifyBool(const Expr& e) {
  return e.Visit(Overloaded{
      [&](const IntImm&) { return e; },
      [&](const Var&) { return FromKnown(e); },
      [&](const Unary& n) {
        if (const Binary* inner = n.a.As<Binary>()) {
          if (IsComparison(inner->op) && inner->a.dtype().IsInt()) {
            return SimplifyBool(MakeBinary(Negated(inner->op), inner->a, inner->b));
          }
        }
        Expr a = SimplifyBool(n.a);
        if (AsInt(a)) return BoolConst(!*AsInt(a));
        if (const Unary* inner = a.As<Unary>()) return inner->a;
        const Binary* inner = a.As<Binary>();
        if (inner && IsComparison(inner->op) && inner->a.dtype().IsInt()) {
          return SimplifyBool(MakeBinary(Negated(inner->op), inner->a, inner->b));
        }
        return FromKnown(a.Same(n.a) ? e : MakeUnary(UnaryOp::kNot, a));
      },
      [&](const Binary& n) {
        if (n.op == BinaryOp::kAnd || n.op == BinaryOp::kOr) return SimplifyJunction(e, n.op);
        if (IsComparison(n.op)) {
          Expr r = SimplifyComparison(e, n);
          return AsInt(r) ? r : FromKnown(r);
        }
        return FromKnown(SimplifyOther(e));
      },
      [&](const Select& n) {
        Expr r = SimplifySelect(e, n);
        if (const Select* select = r.As<Select>()) {
          if (IsConst(select->a, 1) && IsConst(select->b, 0)) return select->condition;
          if (IsConst(select->a, 0) && IsConst(select->b, 1)) {
            return SimplifyBool(MakeUnary(UnaryOp::kNot, select->condition));
          }
        }
        return r;
      },
      [&](const auto&) { return FromKnown(SimplifyOther(e)); },
  });
}

Expr Simplifier::SimplifyJunction(const Expr& e, BinaryOp op) {
  bool is_and = op == BinaryOp::kAnd;  // also the neutral value; its opposite decides the result
  SmallVector<Expr, 8> raw, parts;
  Flatten(e, op, raw);
  Mark mark = GetMark();
  for (const Expr& part : raw) {
    Expr r = SimplifyBool(part);
    if (const int64_t* value = AsInt(r)) {
      if ((*value != 0) == is_and) continue;
      Release(mark);
      return BoolConst(!is_and);
    }
    size_t first = parts.size();
    Flatten(r, op, parts);
    for (size_t i = first; i < parts.size(); ++i) Assume(parts[i], is_and);
  }
  Release(mark);
  // Drops each part that follows from the other parts.
  for (size_t i = parts.size(); i-- > 0 && parts.size() > 1;) {
    for (size_t j = 0; j < parts.size(); ++j) {
      if (j != i) Assume(parts[j], is_and);
    }
    Expr r = SimplifyBool(parts[i]);
    Release(mark);
    if (const int64_t* value = AsInt(r)) {
      if ((*value != 0) != is_and) return BoolConst(!is_and);
      parts.erase(i);
    } else {
      parts[i] = r;
    }
  }
  restless_ |= parts.size() > 1;
  if (parts.empty()) return BoolConst(is_and);
  Expr r = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) r = MakeBinary(op, r, parts[i]);
  return Compare(r, e) == 0 ? e : r;
}

bool Simplifier::Proves(const Expr& condition) { return IsConst(Run(condition), 1); }

void Simplifier::AssumeNonNegative(const LinearForm& s) {
  if (s.Huge() || s.terms.empty()) return;
  if (s.terms.size() == 1) {
    if (const Var* var = s.terms[0].atom.As<Var>()) {
      int64_t k = s.terms[0].coefficient;
      Range r = Lookup(var->name);
      if (k > 0) {
        r.low = std::max(r.low, -FloorDivide(s.constant, k));
      } else {
        r.high = std::min(r.high, FloorDivide(s.constant, -k));
      }
      return Bind(var->name, r);
    }
  }
  for (size_t i = 0; i < s.terms.size(); ++i) {  // min(a, b) >= c implies a >= c and b >= c
    const Binary* n = s.terms[i].atom.As<Binary>();
    int64_t k = s.terms[i].coefficient;
    if (!n || n->op != (k > 0 ? BinaryOp::kMin : BinaryOp::kMax)) continue;
    for (const Expr& operand : {n->a, n->b}) {
      LinearForm one = s;
      one.terms.erase(i);
      one.Add(ToLinear(operand), k);
      AssumeNonNegative(one);
    }
    return;
  }
  own_.facts.push_back(s);
}

void Simplifier::Assume(const Expr& condition, bool value) {
  if (const Unary* n = condition.As<Unary>()) return Assume(n->a, !value);
  if (condition.As<IntImm>()) return;
  const Binary* n = condition.As<Binary>();
  if (n && n->op == (value ? BinaryOp::kAnd : BinaryOp::kOr)) {
    Assume(n->a, value);
    return Assume(n->b, value);
  }
  if (!n || !IsComparison(n->op) || !IsScalarIndex(n->a)) {
    own_.known.emplace_back(condition, value);
    return;
  }
  BinaryOp op = value ? n->op : Negated(n->op);
  LinearForm s = ToLinear(n->a);
  s.Add(ToLinear(n->b), -1);
  LinearForm negated = s;
  negated.Scale(-1);
  switch (op) {
    case BinaryOp::kLe:
      return AssumeNonNegative(negated);
    case BinaryOp::kLt:
      negated.constant -= 1;
      return AssumeNonNegative(negated);
    case BinaryOp::kGe:
      return AssumeNonNegative(s);
    case BinaryOp::kGt:
      s.constant -= 1;
      return AssumeNonNegative(s);
    case BinaryOp::kEq:
      AssumeNonNegative(s);
      AssumeNonNegative(negated);
      return;
    default:
      own_.known.emplace_back(condition, value);
  }
}

}  // namespace autotune::arith
