// Brings index expressions to the normal form of arith/analyzer.h, and folds constants in other expressions.
#include <algorithm>
#include <numeric>

#include "arith/simplifier.h"
#include "ir/int_math.h"
#include "ir/visit.h"

namespace autotune::arith {
namespace {

// Divides `sum` by c. Returns false if that leaves a remainder.
bool DivideExactly(LinearForm& sum, int64_t c) {
  bool exact = sum.constant % c == 0;
  for (const Term& term : sum.terms) exact &= term.coefficient % c == 0;
  if (!exact) return false;
  sum.constant /= c;
  for (Term& term : sum.terms) term.coefficient /= c;
  return true;
}

// The floor quotient by c that all values in the range share; absent if they have different ones.
std::optional<int64_t> CommonQuotient(Range r, int64_t c) {
  if (!r.IsFinite()) return std::nullopt;
  int64_t low = FloorDivide(r.low, c);
  return low == FloorDivide(r.high, c) ? std::optional(low) : std::nullopt;
}

using Divisors = SmallVector<int64_t, 8>;

// Inserts g into a list of distinct numbers in descending order.
void AddDivisor(Divisors& list, int64_t g) {
  size_t i = 0;
  while (i < list.size() && list[i] > g) ++i;
  if (i < list.size() && list[i] == g) return;
  list.emplace_back(g);
  for (size_t j = list.size() - 1; j > i; --j) std::swap(list[j], list[j - 1]);
}

Divisors CommonDivisors(const LinearForm& s, int64_t c) {
  Divisors list;
  for (const Term& term : s.terms) {
    int64_t g = std::gcd(term.coefficient, c);
    if (g > 1 && g < c) AddDivisor(list, g);
  }
  return list;
}

LinearForm AtomForm(BinaryOp op, const LinearForm& s, int64_t c, const Expr* original) {
  LinearForm out;
  const Binary* n = original ? original->As<Binary>() : nullptr;
  if (n && n->op == op && IsConst(n->b, c) && s.Is(n->a)) {
    out.terms.emplace_back(*original, 1);
  } else {
    out.terms.emplace_back(MakeBinary(op, s.ToExpr(), IntConst(c)), 1);
  }
  return out;
}

}  // namespace

DivMod AsDivMod(const Expr& e) {
  const Binary* n = e.As<Binary>();
  if (!n || (n->op != BinaryOp::kFloorDiv && n->op != BinaryOp::kFloorMod)) return {};
  const int64_t* c = AsInt(n->b);
  return c && *c > 0 ? DivMod{n, *c, n->op == BinaryOp::kFloorDiv} : DivMod{};
}

// Writes s as g * high + low with low in [0, g). Returns false if the terms that g does not divide may reach different
// multiples of g.
bool Simplifier::SplitBy(const LinearForm& s, int64_t g, LinearForm& high, LinearForm& low) {
  low = LinearForm(FloorModulo(s.constant, g));
  high = LinearForm(FloorDivide(s.constant, g));
  for (const Term& term : s.terms) {
    if (term.coefficient % g != 0) low.terms.emplace_back(term);
  }
  auto q = CommonQuotient(BoundsOf(low), g);
  if (!q) return false;
  low.constant -= *q * g;
  high.constant += *q;
  for (const Term& term : s.terms) {
    if (term.coefficient % g == 0) high.terms.emplace_back(term.atom, term.coefficient / g);
  }
  return true;
}

LinearForm Simplifier::Div(LinearForm s, int64_t c, const Expr* original) {
  if (c == 1) return s;
  if (s.Huge() || IsHuge(c)) return AtomForm(BinaryOp::kFloorDiv, s, c, original);
  LinearForm q(FloorDivide(s.constant, c));
  s.constant = FloorModulo(s.constant, c);
  for (size_t i = 0; i < s.terms.size();) {
    if (s.terms[i].coefficient % c == 0) {
      q.Add(s.terms[i].atom, s.terms[i].coefficient / c);
      s.terms.erase(i);
    } else {
      ++i;
    }
  }
  if (auto shared = CommonQuotient(BoundsOf(s), c)) {
    q.constant += *shared;
    return q;
  }
  LinearForm high, low;
  for (int64_t g : CommonDivisors(s, c)) {
    if (!SplitBy(s, g, high, low)) continue;
    q.Add(Div(std::move(high), c / g), 1);
    return q;
  }
  if (s.terms.size() == 1 && s.terms[0].coefficient == 1) {
    Expr atom = s.terms[0].atom;
    DivMod inner = AsDivMod(atom);
    if (inner && inner.is_div && !IsHuge(inner.divisor) && !IsHuge(WrapMul(inner.divisor, c)) &&
        !IsHuge(WrapMul(inner.divisor, s.constant)) && inner.divisor < kHuge / c) {
      // (a // b + k) // c = (a + k * b) // (b * c)
      LinearForm a = ToLinear(inner.node->a);
      a.constant = WrapAdd(a.constant, s.constant * inner.divisor);
      q.Add(Div(std::move(a), inner.divisor * c), 1);
      return q;
    }
    if (inner && !inner.is_div && s.constant == 0 && inner.divisor % c == 0) {
      // (a % (b * c)) // c = (a // c) % b
      q.Add(Mod(Div(ToLinear(inner.node->a), c), inner.divisor / c), 1);
      return q;
    }
  }
  q.Add(AtomForm(BinaryOp::kFloorDiv, s, c, original), 1);
  return q;
}

LinearForm Simplifier::Mod(LinearForm s, int64_t c, const Expr* original) {
  if (c == 1) return LinearForm(0);
  if (s.Huge() || IsHuge(c)) return AtomForm(BinaryOp::kFloorMod, s, c, original);
  if (auto q = CommonQuotient(BoundsOf(s), c)) {
    s.constant -= *q * c;
    return s;
  }
  // Reduces the coefficients and the constant modulo c, and replaces k * (a % b) by k * a if c divides k * b.
  bool again = true;
  while (again) {
    again = false;
    s.constant = FloorModulo(s.constant, c);
    for (size_t i = 0; i < s.terms.size();) {
      s.terms[i].coefficient %= c;
      if (s.terms[i].coefficient == 0) {
        s.terms.erase(i);
      } else {
        ++i;
      }
    }
    for (size_t i = 0; i < s.terms.size() && !again; ++i) {
      DivMod inner = AsDivMod(s.terms[i].atom);
      int64_t k = s.terms[i].coefficient;
      if (!inner || inner.is_div || IsHuge(inner.divisor)) continue;
      if (static_cast<__int128>(inner.divisor) * k % c != 0) continue;
      LinearForm a = ToLinear(inner.node->a);
      if (a.Huge()) continue;
      for (Term& term : a.terms) term.coefficient %= c;
      a.constant %= c;
      if (IsHuge(c * 2)) continue;
      s.terms.erase(i);
      for (const Term& term : a.terms) {
        s.Add(term.atom, static_cast<int64_t>(static_cast<__int128>(term.coefficient) * k % c));
      }
      s.constant += static_cast<int64_t>(static_cast<__int128>(a.constant) * k % c);
      again = true;
    }
  }
  if (auto q = CommonQuotient(BoundsOf(s), c)) {
    s.constant -= *q * c;
    return s;
  }
  LinearForm high, low;
  for (int64_t g : CommonDivisors(s, c)) {
    if (!SplitBy(s, g, high, low)) continue;
    LinearForm m = Mod(std::move(high), c / g);
    m.Scale(g);
    m.Add(low, 1);
    return m;
  }
  return AtomForm(BinaryOp::kFloorMod, s, c, original);
}

// Combines quotients and remainders of the same expression. Each step removes a term.
void Simplifier::Recombine(LinearForm& sum) {
  for (size_t i = 0; i < sum.terms.size();) {
    i = RecombineOnce(sum, i) ? 0 : i + 1;
  }
}

bool Simplifier::RecombineOnce(LinearForm& sum, size_t i) {
  DivMod n = AsDivMod(sum.terms[i].atom);
  if (!n || sum.terms.size() < 2) return false;
  int64_t k = sum.terms[i].coefficient;
  if (IsHuge(k) || IsHuge(n.divisor)) return false;
  Expr atom = sum.terms[i].atom;
  if (n.is_div) {
    // k * a - k * c * (a // c) = k * (a % c)
    if (k % n.divisor != 0) return false;
    int64_t scale = -k / n.divisor;
    LinearForm a = ToLinear(n.node->a);
    if (!sum.Contains(a, scale)) return false;
    sum.terms.erase(i);
    sum.Add(a, -scale);
    sum.Add(Mod(std::move(a), n.divisor), scale);
    return true;
  }
  // k * (a % c) + k * c * (a // c) = k * a
  int64_t multiple = WrapMul(k, n.divisor);
  bool possible = false, reverse = false;
  for (const Term& term : sum.terms) {
    if (&term == &sum.terms[i]) continue;
    possible |= term.coefficient % multiple == 0;
    reverse |= term.coefficient % k == 0;
  }
  if (!possible && !reverse) return false;
  LinearForm a = ToLinear(n.node->a);
  if (possible) {
    LinearForm quotient = Div(a, n.divisor);
    if (!quotient.terms.empty() && sum.Contains(quotient, multiple)) {
      sum.terms.erase(i);
      sum.Add(quotient, -multiple);
      sum.Add(a, k);
      return true;
    }
    // k * (a % c) + k * c * ((a + c * q) // c) = k * a + k * c * q. The two dividends differ since Mod reduces
    // coefficients modulo c, and Div does not.
    for (size_t j = 0; j < sum.terms.size(); ++j) {
      DivMod other = AsDivMod(sum.terms[j].atom);
      if (!other || !other.is_div || other.divisor != n.divisor || sum.terms[j].coefficient != multiple) continue;
      LinearForm q = ToLinear(other.node->a);
      q.Add(a, -1);
      if (q.Huge() || !DivideExactly(q, n.divisor)) continue;
      sum.terms.erase(std::max(i, j));
      sum.terms.erase(std::min(i, j));
      sum.Add(q, multiple);
      sum.Add(a, k);
      return true;
    }
  }
  // k * (a % c) + k * c * ((a' // c + r) % m) = k * ((a' + c * r) % (c * m)), if a' - a is a multiple of c
  for (size_t j = 0; possible && j < sum.terms.size(); ++j) {
    DivMod other = AsDivMod(sum.terms[j].atom);
    if (j == i || !other || other.is_div || sum.terms[j].coefficient != multiple) continue;
    LinearForm whole = ToLinear(other.node->a);
    if (whole.Huge() || IsHuge(other.divisor) || IsHuge(n.divisor * other.divisor)) continue;
    for (const Term& term : whole.terms) {
      DivMod quotient = AsDivMod(term.atom);
      if (!quotient || !quotient.is_div || quotient.divisor != n.divisor || term.coefficient != 1) continue;
      LinearForm dividend = ToLinear(quotient.node->a), difference = dividend;
      difference.Add(a, -1);
      if (difference.Huge() || !DivideExactly(difference, n.divisor)) continue;
      Expr digit = term.atom;
      whole.Add(digit, -1);
      dividend.Add(whole, n.divisor);
      sum.terms.erase(std::max(i, j));
      sum.terms.erase(std::min(i, j));
      sum.Add(Mod(std::move(dividend), n.divisor * other.divisor), k);
      return true;
    }
  }
  // k * a - k * (a % c) = k * c * (a // c)
  if (reverse && sum.Contains(a, -k)) {
    sum.terms.erase(i);
    sum.Add(a, k);
    sum.Add(Div(std::move(a), n.divisor), -multiple);
    return true;
  }
  return false;
}

LinearForm Simplifier::MinMax(BinaryOp op, const LinearForm& a, const LinearForm& b) {
  bool is_min = op == BinaryOp::kMin;
  bool huge = a.Huge() || b.Huge();
  if (!huge) {
    LinearForm difference = a;
    difference.Add(b, -1);
    Range r = BoundsOf(difference);
    if (r.high <= 0) return is_min ? a : b;
    if (r.low >= 0) return is_min ? b : a;
  }
  Expr x = a.ToExpr(), y = b.ToExpr();
  if (AsInt(x) || (!AsInt(y) && Compare(x, y) > 0)) std::swap(x, y);  // constants last
  const int64_t* c = AsInt(y);
  const Binary* inner = x.As<Binary>();
  if (c && inner && inner->op == op && AsInt(inner->b)) {
    int64_t d = *AsInt(inner->b);
    return MinMax(op, ToLinear(inner->a), LinearForm(is_min ? std::min(*c, d) : std::max(*c, d)));
  }
  restless_ = true;
  LinearForm out;
  out.Add(MakeBinary(op, x, y), 1);
  return out;
}

void Simplifier::Gather(const Expr& e, int64_t k, LinearForm& out) {
  auto constant = [&](int64_t v) { out.constant = WrapAdd(out.constant, WrapMul(k, v)); };
  e.Visit(Overloaded{
      [&](const IntImm& n) { constant(n.value); },
      [&](const Var& n) {
        Range r = Lookup(n.name);
        if (r.IsPoint()) return constant(r.low);
        out.Add(e, k);
      },
      [&](const Unary& n) { Gather(n.a, WrapMul(k, -1), out); },
      [&](const Binary& n) {
        switch (n.op) {
          case BinaryOp::kAdd:
            Gather(n.a, k, out);
            return Gather(n.b, k, out);
          case BinaryOp::kSub:
            Gather(n.a, k, out);
            return Gather(n.b, WrapMul(k, -1), out);
          case BinaryOp::kMul: {
            if (const int64_t* c = AsInt(n.b)) return Gather(n.a, WrapMul(k, *c), out);
            if (const int64_t* c = AsInt(n.a)) return Gather(n.b, WrapMul(k, *c), out);
            LinearForm a = ToForm(n.a), b = ToForm(n.b);
            if (a.IsConst()) std::swap(a, b);
            if (b.IsConst()) return out.Add(a, WrapMul(k, b.constant));
            Expr x = a.ToExpr(), y = b.ToExpr();
            if (Compare(x, y) > 0) std::swap(x, y);
            return out.Add(MakeBinary(BinaryOp::kMul, x, y), k);
          }
          case BinaryOp::kFloorDiv:
          case BinaryOp::kFloorMod: {
            LinearForm b = AsInt(n.b) ? LinearForm(*AsInt(n.b)) : ToForm(n.b);
            if (b.IsConst() && b.constant > 0) {
              LinearForm a = ToForm(n.a);
              bool is_div = n.op == BinaryOp::kFloorDiv;
              return out.Add(is_div ? Div(std::move(a), b.constant, &e) : Mod(std::move(a), b.constant, &e), k);
            }
            Expr folded = MakeBinary(n.op, Simplify(n.a), b.ToExpr());
            if (AsInt(folded)) return constant(*AsInt(folded));
            return out.Add(folded, k);
          }
          case BinaryOp::kMin:
          case BinaryOp::kMax:
            return out.Add(MinMax(n.op, ToForm(n.a), ToForm(n.b)), k);
          default: {
            Expr folded = SimplifyOther(e);
            if (AsInt(folded)) return constant(*AsInt(folded));
            return out.Add(folded, k);
          }
        }
      },
      [&](const Select& n) { out.Add(ToLinear(SimplifySelect(e, n)), k); },
      [&](const auto&) {
        Expr folded = SimplifyOther(e);
        if (AsInt(folded)) return constant(*AsInt(folded));
        out.Add(folded, k);
      },
  });
}

LinearForm Simplifier::ToForm(const Expr& e) {
  LinearForm out;
  Gather(e, 1, out);
  if (out.terms.size() > 1) Recombine(out);
  return out;
}

Expr Simplifier::Finish(const Expr& original, const LinearForm& sum) {
  return sum.Is(original) ? original : sum.ToExpr();
}

Expr Simplifier::Run(const Expr& e) {
  constexpr int kPasses = 5;  // at most; two are usual
  Expr r = e;
  for (int pass = 0; pass < kPasses; ++pass) {
    restless_ = false;
    Expr next = Simplify(r);
    bool done = !restless_ || next.Same(r);
    r = std::move(next);
    if (done) break;
  }
  return r;
}

Expr Simplifier::Simplify(const Expr& e) {
  DType dtype = e.dtype();
  if (dtype.lanes == 1) {
    if (dtype.IsIndex()) return AsInt(e) ? e : Finish(e, ToForm(e));
    if (dtype.IsBool()) return SimplifyBool(e);
  }
  if (const Select* n = e.As<Select>()) return SimplifySelect(e, *n);
  return SimplifyTyped(e);
}

Expr Simplifier::SimplifySelect(const Expr& e, const Select& n) {
  Expr c = Simplify(n.condition);
  if (const int64_t* value = AsInt(c)) return Simplify(*value ? n.a : n.b);
  if (c.dtype().lanes != 1) {
    Expr a = Simplify(n.a), b = Simplify(n.b);
    return c.Same(n.condition) && a.Same(n.a) && b.Same(n.b) ? e : MakeSelect(c, a, b);
  }
  Mark mark = GetMark();
  Assume(c, true);
  Expr a = Simplify(n.a);
  Release(mark);
  Assume(c, false);
  Expr b = Simplify(n.b);
  Release(mark);
  if (SameAtom(a, b)) return a;
  restless_ = true;
  return c.Same(n.condition) && a.Same(n.a) && b.Same(n.b) ? e : MakeSelect(c, a, b);
}

Expr Simplifier::SimplifyOther(const Expr& e) {
  Expr r = MapChildren(e, [this](const Expr& child) { return Simplify(child); });
  if (const Cast* cast = r.As<Cast>()) {
    const int64_t* value = AsInt(cast->a);
    if (value && r.dtype().lanes == 1 && (r.dtype().IsInt())) {
      return IntConst(WrapTo(static_cast<uint64_t>(*value), r.dtype()), r.dtype());
    }
  }
  return r;
}

// Typed integers wrap around, so only constants and identities are folded. Float arithmetic is kept; only its operands
// are simplified.
Expr Simplifier::SimplifyTyped(const Expr& e) {
  Expr r = SimplifyOther(e);
  const Binary* n = r.As<Binary>();
  DType dtype = r.dtype();
  if (!n || !dtype.IsInt() || dtype.lanes != 1) return r;
  const int64_t *x = AsInt(n->a), *y = AsInt(n->b);
  if (x && y) {
    auto value = FoldInt(n->op, *x, *y, dtype);
    return value ? IntConst(*value, dtype) : r;
  }
  switch (n->op) {
    case BinaryOp::kAdd:
      return IsConst(n->a, 0) ? n->b : IsConst(n->b, 0) ? n->a : r;
    case BinaryOp::kSub:
      return IsConst(n->b, 0) ? n->a : r;
    case BinaryOp::kMul:
      if (IsConst(n->a, 0) || IsConst(n->b, 1)) return n->a;
      return IsConst(n->b, 0) || IsConst(n->a, 1) ? n->b : r;
    case BinaryOp::kFloorDiv:
      return IsConst(n->b, 1) ? n->a : r;
    case BinaryOp::kFloorMod:
      return IsConst(n->b, 1) ? IntConst(0, dtype) : r;
    default:
      return r;
  }
}

}  // namespace autotune::arith
