// Compares simplified random index expressions with the originals, for all values of their variables.
#include <gtest/gtest.h>

#include "arith/analyzer.h"
#include "ir/text.h"
#include "tests/arith/random_index.h"

namespace autotune {
namespace {

using test::EvalIndex;
using test::IndexEnv;
using test::RandomIndex;

Analyzer AnalyzerOf(const RandomIndex& g) {
  Analyzer a;
  for (const test::IndexRange& v : g.vars) a.Bind(v.name, v.low, v.high);
  return a;
}

constexpr int kRounds = 4000;

TEST(Property, SimplifyKeepsTheValueIsIdempotentAndBoundsHold) {
  int failures = 0;
  for (int seed = 0; seed < kRounds && failures < 5; ++seed) {
    RandomIndex g(seed);
    Analyzer analyzer = AnalyzerOf(g);
    Expr e = g.Index(1 + seed % 4);
    Expr s = analyzer.Simplify(e);
    Expr again = analyzer.Simplify(s);
    if (!again.Same(s)) {
      ++failures;
      ADD_FAILURE() << "seed " << seed << " not idempotent: " << g.Ranges() << "\n  " << ToText(e) << "\n  "
                    << ToText(s) << "\n  " << ToText(again);
    }
    Interval bounds = analyzer.Bounds(e);
    g.ForAll([&](const IndexEnv& env) {
      int64_t want = EvalIndex(e, env), got = EvalIndex(s, env);
      bool in = (!bounds.low || *bounds.low <= want) && (!bounds.high || want <= *bounds.high);
      if (want == got && in) return true;
      ++failures;
      ADD_FAILURE() << "seed " << seed << ": " << g.Ranges() << "\n  " << ToText(e) << " = " << want << "\n  "
                    << ToText(s) << " = " << got << (in ? "" : " out of bounds");
      return false;
    });
  }
}

TEST(Property, CommonFactorsDivide) {
  int failures = 0, told = 0;
  for (int seed = 0; seed < kRounds && failures < 5; ++seed) {
    RandomIndex g(seed + 2000000);
    Expr e = g.Index(1 + seed % 4);
    int64_t factor = CommonFactor(e);
    told += factor > 1;
    ASSERT_GE(factor, 0) << ToText(e);
    g.ForAll([&](const IndexEnv& env) {
      int64_t value = EvalIndex(e, env);
      if (factor == 0 ? value == 0 : value % factor == 0) return true;
      ++failures;
      ADD_FAILURE() << "seed " << seed << ": " << ToText(e) << " = " << value << " is not a multiple of " << factor;
      return false;
    });
  }
  EXPECT_GT(told, kRounds / 50);  // enough factors above 1 for a meaningful test
}

TEST(Property, ConditionsKeepTheirValueAndProofsHold) {
  int failures = 0, proven = 0;
  for (int seed = 0; seed < kRounds && failures < 5; ++seed) {
    RandomIndex g(seed + 1000000);
    Analyzer analyzer = AnalyzerOf(g);
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
    g.ForAll([&](const IndexEnv& env) {
      int64_t want = EvalIndex(e, env), got = EvalIndex(s, env);
      bool ok = want == got && (!proof || want);
      if (EvalIndex(given, env) && EvalIndex(t, env) != want) ok = false;
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
