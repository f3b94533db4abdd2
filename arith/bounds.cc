// Intervals of expressions: interval arithmetic, sharpened by the facts that were assumed.
#include <algorithm>
#include <numeric>

#include "arith/simplifier.h"
#include "ir/int_math.h"

namespace autotune::arith {
namespace {

constexpr int64_t kLimit = int64_t{1} << 62;

int64_t Low(__int128 v) { return v < -kLimit ? Range::kNegInf : static_cast<int64_t>(std::min<__int128>(v, kLimit)); }
int64_t High(__int128 v) { return v > kLimit ? Range::kPosInf : static_cast<int64_t>(std::max<__int128>(v, -kLimit)); }

Range OfDType(DType dtype) {
  if (dtype.lanes != 1) return {};
  switch (dtype.code) {
    case TypeCode::kBool:
      return {0, 1};
    case TypeCode::kInt:
      if (dtype.bits == 64) return {};
      return {-(int64_t{1} << (dtype.bits - 1)), (int64_t{1} << (dtype.bits - 1)) - 1};
    case TypeCode::kUInt:
      if (dtype.bits == 64) return {0, Range::kPosInf};
      return {0, (int64_t{1} << dtype.bits) - 1};
    default:
      return {};
  }
}

// Returns the node if the expression is a min or a max, else null.
const Binary* AsMinMax(const Expr& e) {
  const Binary* n = e.As<Binary>();
  return n && (n->op == BinaryOp::kMin || n->op == BinaryOp::kMax) ? n : nullptr;
}

}  // namespace

Range Meet(Range a, Range b) { return {std::max(a.low, b.low), std::min(a.high, b.high)}; }
Range Join(Range a, Range b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

Range Plus(Range a, Range b) {
  Range r;
  if (a.low != Range::kNegInf && b.low != Range::kNegInf) r.low = Low(static_cast<__int128>(a.low) + b.low);
  if (a.high != Range::kPosInf && b.high != Range::kPosInf) r.high = High(static_cast<__int128>(a.high) + b.high);
  return r;
}

Range Times(Range a, int64_t k) {
  if (k == 0) return {0, 0};
  Range r;
  int64_t low = k > 0 ? a.low : a.high, high = k > 0 ? a.high : a.low;
  if (low != Range::kNegInf && low != Range::kPosInf) r.low = Low(static_cast<__int128>(low) * k);
  if (high != Range::kNegInf && high != Range::kPosInf) r.high = High(static_cast<__int128>(high) * k);
  return r;
}

Range Times(Range a, Range b) {
  if (a.IsPoint()) return Times(b, a.low);
  if (b.IsPoint()) return Times(a, b.low);
  if (a.IsFinite() && b.IsFinite()) {
    __int128 corners[] = {static_cast<__int128>(a.low) * b.low, static_cast<__int128>(a.low) * b.high,
                          static_cast<__int128>(a.high) * b.low, static_cast<__int128>(a.high) * b.high};
    return {Low(*std::min_element(corners, corners + 4)), High(*std::max_element(corners, corners + 4))};
  }
  if (a.low >= 0 && b.low >= 0) return {Low(static_cast<__int128>(a.low) * b.low), Range::kPosInf};
  return {};
}

Range DividedBy(Range a, int64_t c) {
  if (a.low != Range::kNegInf) a.low = FloorDivide(a.low, c);
  if (a.high != Range::kPosInf) a.high = FloorDivide(a.high, c);
  return a;
}

Range Simplifier::Lookup(const Name& var) const {
  for (size_t i = own_.ranges.size(); i-- > 0;) {
    if (own_.ranges[i].first == var) return own_.ranges[i].second;
  }
  for (size_t i = base_.ranges.size(); i-- > 0;) {
    if (base_.ranges[i].first == var) return base_.ranges[i].second;
  }
  return {};
}

Range Simplifier::PlainBounds(const Expr& e) {
  DType dtype = e.dtype();
  Range all = OfDType(dtype);
  if (dtype.lanes != 1 || dtype.IsFloat()) return all;
  Range r = e.Visit(Overloaded{
      [&](const IntImm& n) {
        if (dtype.code == TypeCode::kUInt && n.value < 0) return all;  // u64 beyond int64
        return Range{Low(n.value), High(n.value)};
      },
      [&](const Var& n) { return Meet(Lookup(n.name), all); },
      [&](const Unary& n) { return n.op == UnaryOp::kNeg ? Times(PlainBounds(n.a), -1) : all; },
      [&](const Binary& n) {
        const int64_t* c = AsInt(n.b);
        switch (n.op) {
          case BinaryOp::kAdd:
            return Plus(PlainBounds(n.a), PlainBounds(n.b));
          case BinaryOp::kSub:
            return Plus(PlainBounds(n.a), Times(PlainBounds(n.b), -1));
          case BinaryOp::kMul:
            return c ? Times(PlainBounds(n.a), *c) : Times(PlainBounds(n.a), PlainBounds(n.b));
          case BinaryOp::kFloorDiv:
            return c && *c > 0 ? DividedBy(PlainBounds(n.a), *c) : all;
          case BinaryOp::kFloorMod: {
            if (!c || *c <= 0) return all;
            Range a = PlainBounds(n.a);
            if (a.IsFinite() && FloorDivide(a.low, *c) == FloorDivide(a.high, *c)) {
              int64_t base = FloorDivide(a.low, *c) * *c;
              return Range{a.low - base, a.high - base};
            }
            return Range{0, *c - 1};
          }
          case BinaryOp::kMin: {
            Range a = PlainBounds(n.a), b = PlainBounds(n.b);
            return Range{std::min(a.low, b.low), std::min(a.high, b.high)};
          }
          case BinaryOp::kMax: {
            Range a = PlainBounds(n.a), b = PlainBounds(n.b);
            return Range{std::max(a.low, b.low), std::max(a.high, b.high)};
          }
          default:
            return all;
        }
      },
      [&](const Cast& n) {
        DType from = n.a.dtype();
        return from.IsInt() || from.IsBool() ? PlainBounds(n.a) : all;
      },
      [&](const Select& n) { return Join(PlainBounds(n.a), PlainBounds(n.b)); },
      [&](const auto&) { return all; },
  });
  if (dtype.IsIndex()) return r;
  // Typed integers wrap around: if a value may leave the range of its dtype, the result may be any value.
  bool fits = r.low >= all.low && r.high <= all.high && (r.IsFinite() || dtype.bits < 64);
  return fits ? r : all;
}

Range Simplifier::PlainBounds(const LinearForm& sum) {
  Range r{sum.constant, sum.constant};
  if (IsHuge(sum.constant)) r = {Low(sum.constant), High(sum.constant)};
  for (const Term& term : sum.terms) {
    r = Plus(r, Times(PlainBounds(term.atom), term.coefficient));
    if (r.low == Range::kNegInf && r.high == Range::kPosInf) break;
  }
  return r;
}

Range Simplifier::BoundsOf(const LinearForm& sum) { return BoundsOf(sum, 2); }

Range Simplifier::BoundsOf(const LinearForm& sum, int depth) {
  Range r = PlainBounds(sum);
  if (r.IsPoint() || sum.terms.empty()) return r;
  // If a term is a min or a max, bounds the sum with either operand in its place, since terms of an operand may cancel
  // other terms of the sum.
  if (depth > 0 && sum.terms.size() > 1) {
    for (size_t i = 0; i < sum.terms.size(); ++i) {
      const Binary* n = AsMinMax(sum.terms[i].atom);
      if (!n) continue;
      int64_t k = sum.terms[i].coefficient;
      LinearForm a = sum;
      a.terms.erase(i);
      LinearForm b = a;
      a.Add(ToLinear(n->a), k);
      b.Add(ToLinear(n->b), k);
      Range x = BoundsOf(a, depth - 1), y = BoundsOf(b, depth - 1);
      // k * min(a, b) is the minimum of k * a and k * b if k > 0, and their maximum if k < 0. For max it is reversed.
      bool minimum = (n->op == BinaryOp::kMin) == (k > 0);
      r = Meet(r, minimum ? Range{std::min(x.low, y.low), std::min(x.high, y.high)}
                          : Range{std::max(x.low, y.low), std::max(x.high, y.high)});
      break;
    }
  }
  auto use = [&](const LinearForm& fact) {  // fact >= 0
    for (const Term& term : fact.terms) {
      int64_t k = sum.Coefficient(term.atom);
      if (k == 0 || k % term.coefficient != 0) continue;
      int64_t ratio = k / term.coefficient;  // sum = ratio * fact + rest
      LinearForm rest = sum;
      rest.Add(fact, -ratio);
      Range bounds = PlainBounds(rest);
      if (ratio > 0) {
        r.low = std::max(r.low, bounds.low);
      } else {
        r.high = std::min(r.high, bounds.high);
      }
      return;
    }
  };
  for (const LinearForm& fact : base_.facts) use(fact);
  for (const LinearForm& fact : own_.facts) use(fact);
  return r;
}

void Simplifier::Release(Mark mark) {
  own_.ranges.resize(mark.ranges);
  own_.facts.resize(mark.facts);
  own_.known.resize(mark.known);
}

}  // namespace autotune::arith
