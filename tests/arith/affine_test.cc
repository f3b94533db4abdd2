// Compares the normal form of index expressions, their bounds, proofs and regions with the expressions' values at every
// point of small domains.
#include "arith/region.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ir/text.h"
#include "tests/arith/random_index.h"

namespace autotune {
namespace {

using test::EvalIndex;
using test::IndexEnv;
using test::IndexRange;
using test::RandomIndex;

constexpr int kForms = 1000;

// Returns the ranges of the variables whose entry in `known` is true. A variable without a range may have any value.
Ranges RangesOf(const RandomIndex& g, const std::vector<bool>& known = {true, true, true}) {
  Ranges ranges;
  for (size_t i = 0; i < g.vars.size(); ++i) {
    if (known[i]) ranges.push_back({g.vars[i].name, g.vars[i].high + 1});
  }
  return ranges;
}
// Draws which variables have a known range. In a quarter of the cases one variable has no known range, and its values
// start below 0.
std::vector<bool> DrawKnown(RandomIndex& g) {
  std::vector<bool> known(g.vars.size(), true);
  size_t i = g.rng.Below(static_cast<int64_t>(g.vars.size()));
  if (g.rng.Below(4)) return known;
  known[i] = false;
  g.vars[i].low -= 3;
  return known;
}

// Returns a point at which two expressions differ, with both values; empty if they agree everywhere.
std::string Differ(const RandomIndex& g, const Expr& e, const Expr& other) {
  std::string found;
  g.ForAll([&](const IndexEnv& env) {
    int64_t want = EvalIndex(e, env), got = EvalIndex(other, env);
    if (want == got) return true;
    found = g.Ranges() + "\n  " + ToText(e) + " = " + std::to_string(want) + "\n  " + ToText(other) + " = " +
            std::to_string(got);
    return false;
  });
  return found;
}

TEST(Affine, NormalFormKeepsTheValue) {
  int changed = 0;
  for (int seed = 0; seed < kForms && !HasFailure(); ++seed) {
    RandomIndex g(seed, true);
    Ranges ranges = RangesOf(g, DrawKnown(g));
    Expr e = g.Index(1 + seed % 4);
    LinearForm sum = Normalize(e, ranges);
    EXPECT_EQ(Differ(g, e, sum.InOrder()), "") << "seed " << seed;
    EXPECT_EQ(Differ(g, e, sum.ToExpr()), "") << "seed " << seed;
    for (size_t i = 0; i < sum.terms.size(); ++i) {
      EXPECT_NE(sum.terms[i].coefficient, 0) << ToText(e);
      EXPECT_EQ(AsInt(sum.terms[i].atom), nullptr) << ToText(e);
      for (size_t k = 0; k < i; ++k) EXPECT_FALSE(Equal(sum.terms[i].atom, sum.terms[k].atom)) << ToText(e);
    }
    changed += !Equal(e, sum.InOrder());
    // The check notices values that are too large by one.
    ++sum.constant;
    EXPECT_NE(Differ(g, e, sum.InOrder()), "");
  }
  EXPECT_GT(changed, kForms / 4);
}

TEST(Affine, BoundsHold) {
  int known = 0, tight = 0;
  for (int seed = 0; seed < kForms && !HasFailure(); ++seed) {
    RandomIndex g(seed, true);
    Ranges ranges = RangesOf(g, DrawKnown(g));
    Expr e = g.Index(1 + seed % 4);
    int64_t low = INT64_MAX, high = INT64_MIN;
    g.ForAll([&](const IndexEnv& env) {
      int64_t value = EvalIndex(e, env);
      low = std::min(low, value), high = std::max(high, value);
      return true;
    });
    for (const std::optional<Bounds>& bounds : {BoundsOf(e, ranges), BoundsOf(Normalize(e, ranges), ranges)}) {
      if (!bounds) continue;
      ++known;
      EXPECT_LE(bounds->low, low) << "seed " << seed << " " << g.Ranges() << ToText(e);
      EXPECT_GE(bounds->high, high) << "seed " << seed << " " << g.Ranges() << ToText(e);
      tight += bounds->low == low && bounds->high == high;
    }
  }
  EXPECT_GT(known, kForms);
  EXPECT_GT(tight, kForms / 2);  // bounds that always said "any value" would hold, too
}

TEST(Affine, ProofsHoldAndConditionsKeepTheirValue) {
  int proven = 0, dropped = 0;
  for (int seed = 0; seed < kForms && !HasFailure(); ++seed) {
    RandomIndex g(seed, true);
    std::vector<bool> known = DrawKnown(g);
    Ranges ranges = RangesOf(g, known);
    Expr e = g.Condition(seed % 3);
    if (Proves(e, ranges)) {
      ++proven;
      EXPECT_EQ(Differ(g, e, BoolConst(true)), "") << "seed " << seed;
    }
    // The condition calls v0 `w`; NormalizeCondition replaces `w` by its definition `inner`.
    Expr inner = g.Index(1), all = And(e, g.Condition(1));
    Expr renamed = Substitute(all, {{g.vars[0].name, IndexVar("w")}});
    Expr normal = NormalizeCondition(renamed, {{Name("w"), inner}}, ranges);
    dropped += !normal || Conjuncts(normal).size() < Conjuncts(all).size();
    Expr plain = Substitute(renamed, {{Name("w"), inner}});
    EXPECT_EQ(Differ(g, plain, normal ? normal : BoolConst(true)), "") << "seed " << seed;
    if (Proves(plain, ranges)) {
      EXPECT_FALSE(normal) << ToText(plain);
    }
  }
  EXPECT_GT(proven, kForms / 20);
  EXPECT_GT(dropped, kForms / 20);
}

// For each combination of values of the fixed variables: the set of values that an expression takes while the variables
// in `runs` run over their ranges.
using Values = std::map<std::vector<int64_t>, std::set<int64_t>>;
Values ValuesOf(const RandomIndex& g, const Expr& e, const std::vector<bool>& runs) {
  Values values;
  g.ForAll([&](const IndexEnv& env) {
    std::vector<int64_t> still;
    for (size_t i = 0; i < runs.size(); ++i) {
      if (!runs[i]) still.push_back(env[i].second);
    }
    values[still].insert(EvalIndex(e, env));
    return true;
  });
  return values;
}
// Compares a region of an expression with the values that the expression takes. If `exact`, the region must be the set
// of these values, otherwise contain them. Returns a description of the first error, or "".
std::string WrongRegion(const RandomIndex& g, const Expr& e, const Region& region, const std::vector<bool>& runs,
                        bool exact) {
  Expr min = region.min.InOrder();
  Values values = ValuesOf(g, e, runs), starts = ValuesOf(g, min, runs);
  for (const auto& [still, taken] : values) {
    if (starts[still].size() != 1) return "its start " + ToText(min) + " depends on a running variable";
    int64_t low = *starts[still].begin(), high = low + region.span;
    bool holds = low <= *taken.begin() && *taken.rbegin() <= high;
    if (!holds || (exact && static_cast<int64_t>(taken.size()) != region.span + 1)) {
      return g.Ranges() + ToText(e) + " takes " + std::to_string(taken.size()) + " values in [" +
             std::to_string(*taken.begin()) + ", " + std::to_string(*taken.rbegin()) + "], not [" +
             std::to_string(low) + ", " + std::to_string(high) + "]";
    }
  }
  return "";
}

struct Running {
  std::vector<bool> runs;
  Ranges running, still;
};
Running DrawRunning(RandomIndex& g) {
  Running r;
  for (const IndexRange& v : g.vars) {
    r.runs.push_back(g.rng.Below(2));
    (r.runs.back() ? r.running : r.still).push_back({v.name, v.high + 1});
  }
  return r;
}

TEST(Affine, RegionsAndTheirUnionsHoldEveryValue) {
  int known = 0, exact = 0, unions = 0;
  for (int seed = 0; seed < kForms && !HasFailure(); ++seed) {
    RandomIndex g(seed, true);
    Running r = DrawRunning(g);
    RegionMap map;
    for (const LoopRange& loop : r.running) map.push_back({loop.var, {LinearForm(), loop.extent - 1}});
    for (const LoopRange& loop : r.still) map.push_back({loop.var, {Normalize(IndexVar(loop.var), r.still), 0}});
    Expr e = g.Index(1 + seed % 3), other = g.rng.Below(2) ? e + Expr(g.rng.Below(9) - 4) : g.Index(1);
    std::optional<Region> region = RegionOf(e, map, r.still), second = RegionOf(other, map, r.still);
    if (!region || !second) continue;
    ++known;
    EXPECT_EQ(WrongRegion(g, e, *region, r.runs, false), "") << "seed " << seed;
    exact += WrongRegion(g, e, *region, r.runs, true).empty();
    if (std::optional<Region> both = Union(*region, *second)) {
      ++unions;
      EXPECT_EQ(WrongRegion(g, e, *both, r.runs, false), "") << "seed " << seed;
      EXPECT_EQ(WrongRegion(g, other, *both, r.runs, false), "") << "seed " << seed;
    }
  }
  EXPECT_GT(known, kForms / 3);
  EXPECT_GT(exact, known / 3);
  EXPECT_GT(unions, known / 4);
}

TEST(Affine, DenseRegionsAreExact) {
  int known = 0, refused = 0;
  for (int seed = 0; seed < kForms && !HasFailure(); ++seed) {
    RandomIndex g(seed, true);
    Running r = DrawRunning(g);
    // Makes a number in mixed radix whose digits are the variables, in random order. The values are dense, or have
    // holes where a factor is too large.
    Expr e = g.rng.Below(4) ? Expr(g.rng.Below(5)) : g.Index(2);
    int64_t factor = 1;
    size_t first = g.rng.Below(3);
    for (size_t i = 0; i < 3; ++i) {
      const IndexRange& v = g.vars[(first + i) % 3];
      e = e + IndexVar(v.name) * Expr(factor);
      factor *= v.high + 1 + (g.rng.Below(6) == 0);
    }
    LinearForm sum = Normalize(e, RangesOf(g));
    std::optional<Region> region = DenseRegionOf(sum, r.running);
    if (!region) {
      ++refused;
      continue;
    }
    ++known;
    EXPECT_EQ(WrongRegion(g, e, *region, r.runs, true), "") << "seed " << seed;
    // The check notices a region that is one element too long or too short.
    for (int64_t by : {-1, 1}) {
      Region wrong = *region;
      wrong.span += by;
      EXPECT_NE(WrongRegion(g, e, wrong, r.runs, true), "");
    }
  }
  EXPECT_GT(known, kForms / 4);
  EXPECT_GT(refused, kForms / 20);
}

}  // namespace
}  // namespace autotune
