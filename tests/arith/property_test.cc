// Random index expressions against evaluation over all values of their variables.
#include <gtest/gtest.h>

#include "arith/analyzer.h"
#include "ir/int_math.h"
#include "ir/text.h"
#include "support/rng.h"

namespace autotune {
namespace {

struct Var3 {
  Name name;
  int64_t low, high;
};
using Env = std::vector<std::pair<Name, int64_t>>;

int64_t Eval(const Expr& e, const Env& env) {
  return e.Visit(Overloaded{
      [&](const IntImm& n) { return n.value; },
      [&](const Var& n) {
        for (const auto& [name, value] : env) {
          if (name == n.name) return value;
        }
        ADD_FAILURE() << "unbound " << n.name;
        return int64_t{0};
      },
      [&](const Unary& n) { return n.op == UnaryOp::kNeg ? -Eval(n.a, env) : int64_t{!Eval(n.a, env)}; },
      [&](const Binary& n) { return FoldInt(n.op, Eval(n.a, env), Eval(n.b, env), n.a.dtype()).value_or(0); },
      [&](const Select& n) { return Eval(n.condition, env) ? Eval(n.a, env) : Eval(n.b, env); },
      [&](const auto&) { return int64_t{0}; },
  });
}

class Generator {
 public:
  explicit Generator(uint64_t seed) : rng(seed) {
    for (int i = 0; i < 3; ++i) {
      int64_t low = rng.Below(4) ? 0 : rng.Below(9) - 4;
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
      default: {  // what splits and fusions make
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
  Analyzer MakeAnalyzer() const {
    Analyzer a;
    for (const Var3& v : vars) a.Bind(v.name, v.low, v.high);
    return a;
  }
  template <class F>
  void ForAll(F&& f) const {
    for (int64_t a = vars[0].low; a <= vars[0].high; ++a) {
      for (int64_t b = vars[1].low; b <= vars[1].high; ++b) {
        for (int64_t c = vars[2].low; c <= vars[2].high; ++c) {
          if (!f(Env{{vars[0].name, a}, {vars[1].name, b}, {vars[2].name, c}})) return;
        }
      }
    }
  }
  std::string Ranges() const {
    std::string s;
    for (const Var3& v : vars)
      s += v.name.str() + " in [" + std::to_string(v.low) + ", " + std::to_string(v.high) + "] ";
    return s;
  }
  Rng rng;
  std::vector<Var3> vars;
};

constexpr int kRounds = 4000;

TEST(Property, SimplifyKeepsTheValueIsIdempotentAndBoundsHold) {
  int failures = 0;
  for (int seed = 0; seed < kRounds && failures < 5; ++seed) {
    Generator g(seed);
    Analyzer analyzer = g.MakeAnalyzer();
    Expr e = g.Index(1 + seed % 4);
    Expr s = analyzer.Simplify(e);
    Expr again = analyzer.Simplify(s);
    if (!again.Same(s)) {
      ++failures;
      ADD_FAILURE() << "seed " << seed << " not idempotent: " << g.Ranges() << "\n  " << ToText(e) << "\n  "
                    << ToText(s) << "\n  " << ToText(again);
    }
    Interval bounds = analyzer.Bounds(e);
    g.ForAll([&](const Env& env) {
      int64_t want = Eval(e, env), got = Eval(s, env);
      bool in = (!bounds.low || *bounds.low <= want) && (!bounds.high || want <= *bounds.high);
      if (want == got && in) return true;
      ++failures;
      ADD_FAILURE() << "seed " << seed << ": " << g.Ranges() << "\n  " << ToText(e) << " = " << want << "\n  "
                    << ToText(s) << " = " << got << (in ? "" : " out of bounds");
      return false;
    });
  }
}

TEST(Property, ConditionsKeepTheirValueAndProofsHold) {
  int failures = 0, proven = 0;
  for (int seed = 0; seed < kRounds && failures < 5; ++seed) {
    Generator g(seed + 1000000);
    Analyzer analyzer = g.MakeAnalyzer();
    Expr e = g.Condition(seed % 4), given = g.Condition(1);
    Analyzer assuming = analyzer;
    assuming.Assume(given);
    Expr s = analyzer.Simplify(e), t = assuming.Simplify(e);
    bool proof = analyzer.Proves(e);
    proven += proof;
    if (Expr again = analyzer.Simplify(s); !again.Same(s)) {
      ++failures;
      ADD_FAILURE() << "seed " << seed << " not idempotent: " << g.Ranges() << "\n  " << ToText(e) << "\n  "
                    << ToText(s) << "\n  " << ToText(again);
    }
    g.ForAll([&](const Env& env) {
      int64_t want = Eval(e, env), got = Eval(s, env);
      bool ok = want == got && (!proof || want);
      if (Eval(given, env) && Eval(t, env) != want) ok = false;
      if (ok) return true;
      ++failures;
      ADD_FAILURE() << "seed " << seed << ": " << g.Ranges() << "\n  " << ToText(e) << " = " << want << "\n  "
                    << ToText(s) << " = " << got << "\n  given " << ToText(given) << ": " << ToText(t);
      return false;
    });
  }
  EXPECT_GT(proven, kRounds / 20);
}

}  // namespace
}  // namespace autotune
