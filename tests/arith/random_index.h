// Random index expressions and conditions over small domains, so that tests can compare a result with the expression's
// value at every point. Deterministic in the seed. Header-only, for tests.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ir/expr.h"
#include "ir/int_math.h"
#include "support/rng.h"

namespace autotune::test {

struct IndexRange {  // both ends are included
  Name name;
  int64_t low, high;
};
using IndexEnv = std::vector<std::pair<Name, int64_t>>;

// Evaluates an index expression or condition; `value_of` gives a variable's value. Loads, calls and divisions by 0
// count as 0.
template <class ValueOf>
int64_t EvalIndex(const Expr& e, const ValueOf& value_of) {
  auto eval = [&](const Expr& x) { return EvalIndex(x, value_of); };
  return e.Visit(Overloaded{
      [&](const IntImm& n) { return n.value; },
      [&](const Var& n) { return value_of(n.name); },
      [&](const Unary& n) { return n.op == UnaryOp::kNeg ? -eval(n.a) : int64_t{!eval(n.a)}; },
      [&](const Binary& n) { return FoldInt(n.op, eval(n.a), eval(n.b), n.a.dtype()).value_or(0); },
      [&](const Select& n) { return eval(n.condition) ? eval(n.a) : eval(n.b); },
      [&](const auto&) { return int64_t{0}; },
  });
}
inline int64_t EvalIndex(const Expr& e, const IndexEnv& env) {
  return EvalIndex(e, [&](const Name& var) {
    for (const auto& [name, value] : env) {
      if (name == var) return value;
    }
    ADD_FAILURE() << "unbound " << var;
    return int64_t{0};
  });
}

// Draws three variables with small ranges, and random expressions of these variables. The expressions have the forms
// that splits, fusions, padding and guards produce.
class RandomIndex {
 public:
  explicit RandomIndex(uint64_t seed, bool from_zero = false) : rng(seed) {
    for (int i = 0; i < 3; ++i) {
      int64_t low = from_zero || rng.Below(4) ? 0 : rng.Below(9) - 4;
      vars.push_back({Name("v" + std::to_string(i)), low, low + rng.Below(3 + rng.Below(8))});
    }
  }
  Expr Index(int depth) {
    if (depth == 0 || rng.Below(6) == 0) {
      if (rng.Below(4) == 0) return Expr(rng.Below(20) - 8);
      return IndexVar(vars[rng.Below(3)].name);
    }
    auto raw = [&](BinaryOp op, Expr a, Expr b) { return MakeExpr(DType::Index(), Binary{op, a, b}); };
    static const int64_t kFactors[] = {1, 2, 3, 4, 6, 7, 8, 12, 16, -1, -2, 56};
    Expr factor = Expr(kFactors[rng.Below(12)]), divisor = Expr(kFactors[rng.Below(9)]);
    switch (rng.Below(11)) {
      case 0:
      case 1:
      case 2:
        return raw(BinaryOp::kAdd, Index(depth - 1), Index(depth - 1));
      case 3:
        return raw(BinaryOp::kSub, Index(depth - 1), Index(depth - 1));
      case 4:
      case 5:
        return raw(BinaryOp::kMul, Index(depth - 1), rng.Below(12) ? factor : Index(1));
      case 6:
        return raw(BinaryOp::kFloorDiv, Index(depth - 1), divisor);
      case 7:
        return raw(BinaryOp::kFloorMod, Index(depth - 1), divisor);
      case 8:
        return raw(rng.Below(2) ? BinaryOp::kMin : BinaryOp::kMax, Index(depth - 1), Index(depth - 1));
      case 9:
        return MakeSelect(Condition(depth - 1), Index(depth - 1), Index(depth - 1));
      default: {  // a quotient and a remainder put together again, as after a split and a fusion
        Expr a = Index(depth - 1);
        Expr quotient = raw(BinaryOp::kFloorDiv, a, divisor), rest = raw(BinaryOp::kFloorMod, a, divisor);
        return raw(BinaryOp::kAdd, raw(BinaryOp::kMul, quotient, divisor), rest);
      }
    }
  }
  Expr Condition(int depth) {
    if (depth > 0 && rng.Below(3) == 0) {
      Expr a = Condition(depth - 1), b = Condition(depth - 1);
      int64_t kind = rng.Below(3);
      return kind == 0 ? And(a, b) : kind == 1 ? Or(a, b) : Not(a);
    }
    auto op = static_cast<BinaryOp>(static_cast<int>(BinaryOp::kEq) + rng.Below(6));
    Expr b = rng.Below(2) ? Index(depth) : Expr(rng.Below(20) - 5);
    return MakeExpr(DType::Bool(), Binary{op, Index(depth), b});
  }
  // Calls f(env) for all values of the variables, until f returns false.
  template <class F>
  void ForAll(F&& f) const {
    for (int64_t a = vars[0].low; a <= vars[0].high; ++a) {
      for (int64_t b = vars[1].low; b <= vars[1].high; ++b) {
        for (int64_t c = vars[2].low; c <= vars[2].high; ++c) {
          if (!f(IndexEnv{{vars[0].name, a}, {vars[1].name, b}, {vars[2].name, c}})) return;
        }
      }
    }
  }
  std::string Ranges() const {
    std::string s;
    for (const IndexRange& v : vars)
      s += v.name.str() + " in [" + std::to_string(v.low) + ", " + std::to_string(v.high) + "] ";
    return s;
  }
  Rng rng;
  std::vector<IndexRange> vars;
};

}  // namespace autotune::test
