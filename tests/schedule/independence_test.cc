// Tests of the decision whether a block's iterators tell the iterations of a loop apart.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ir/text.h"
#include "schedule/region.h"
#include "support/rng.h"
#include "tests/arith/random_index.h"

namespace autotune::schedule {
namespace {

using test::EvalIndex;
using test::IndexEnv;
using test::RandomIndex;

constexpr int kInstances = 2000;

// Returns whether iterators with these bindings tell the 16 iterations of loop v apart. `inner`: loops whose iterations
// may differ, too.
bool Separates(const std::vector<Expr>& bindings, const Ranges& inner = {}) {
  Block block;
  block.name = Name("b");
  for (size_t i = 0; i < bindings.size(); ++i) {
    Iter iter;
    iter.var = Name("i" + std::to_string(i));
    iter.extent = Expr(1000);
    iter.kind = IterKind::kSpatial;
    iter.binding = bindings[i];
    block.iters.push_back(iter);
  }
  return SeparatesInstances(block, {Name("v"), 16}, inner);
}

TEST(Independence, DigitsOfALoop) {
  Expr v = IndexVar(Name("v"));
  EXPECT_TRUE(Separates({v}));
  EXPECT_TRUE(Separates({FloorDiv(v, Expr(3)), FloorMod(v, Expr(3))}));
  EXPECT_FALSE(Separates({FloorDiv(v, Expr(3))}));
  EXPECT_FALSE(Separates({FloorMod(v, Expr(3))}));
}

TEST(Independence, DigitsOfALoopAndWhatOuterOnesAdd) {
  Expr v = IndexVar(Name("v")), x = IndexVar(Name("x")), y = x * Expr(16) + v, z = x * Expr(8) + v;
  EXPECT_TRUE(Separates({FloorDiv(y, Expr(3)), FloorMod(y, Expr(3))}));
  EXPECT_FALSE(Separates({FloorDiv(y, Expr(3))}));
  EXPECT_FALSE(Separates({FloorMod(y, Expr(3))}));
  EXPECT_FALSE(Separates({FloorDiv(y, Expr(3)), FloorMod(z, Expr(3))}));                      // different sums
  EXPECT_FALSE(Separates({FloorDiv(y, Expr(4)), FloorMod(y, Expr(3))}));                      // a digit is missing
  EXPECT_FALSE(Separates({FloorMod(y, Expr(13)), FloorMod(FloorDiv(y, Expr(3)), Expr(6))}));  // 3 does not divide 13
  EXPECT_TRUE(Separates({FloorDiv(y, Expr(3)), FloorMod(y, Expr(3))}, {{Name("x"), 4}}));     // x does not overlap v
  EXPECT_FALSE(Separates({FloorDiv(z, Expr(3)), FloorMod(z, Expr(3))}, {{Name("x"), 4}}));    // x overlaps v
  EXPECT_TRUE(Separates({FloorDiv(y, Expr(3)), v}));                                          // v alone suffices
  Expr last = FloorMod(y, Expr(3)) * Expr(4) + IndexVar(Name("lane"));
  EXPECT_TRUE(Separates({FloorDiv(y, Expr(3)), last}, {{Name("lane"), 4}}));   // lanes are digits below those of v
  EXPECT_FALSE(Separates({FloorDiv(y, Expr(3)), last}, {{Name("lane"), 5}}));  // lanes overlap
  Expr twice = x * Expr(16) + v * Expr(2);
  EXPECT_TRUE(Separates({FloorDiv(twice, Expr(3)), FloorMod(twice, Expr(3))}));
  EXPECT_FALSE(Separates({FloorDiv(twice, Expr(4)), FloorMod(twice, Expr(2))}));  // a digit is missing
}

// The index of a tile's element was split into a turn t, a thread v and an element x of a vector, as when threads copy
// the tile. In each turn every thread copies one vector.
TEST(Independence, DigitsOfATurnsLoop) {
  Expr t = IndexVar(Name("t")), v = IndexVar(Name("v")), x = IndexVar(Name("x"));
  const Ranges inner = {{Name("x"), 8}, {Name("t"), 6}};
  const Expr sum = t * Expr(128) + v * Expr(8) + x;
  EXPECT_TRUE(Separates({sum}, inner));
  EXPECT_TRUE(Separates({FloorDiv(sum, Expr(24)), FloorMod(sum, Expr(24))}, inner));
  EXPECT_TRUE(Separates({FloorDiv(sum, Expr(24)), FloorMod(t * Expr(16) + v, Expr(3)), x}, inner));
  EXPECT_FALSE(Separates({FloorDiv(sum, Expr(24)), x}, inner));      // a digit is missing
  EXPECT_FALSE(Separates({t * Expr(64) + v * Expr(8) + x}, inner));  // the turns overlap
}

TEST(Independence, DigitsOfDigits) {
  Expr v = IndexVar(Name("v")), i = IndexVar(Name("i")), six = FloorMod(v, Expr(6)), above = FloorDiv(v, Expr(6));
  EXPECT_TRUE(Separates({above, FloorDiv(six, Expr(2)), FloorMod(six, Expr(2))}));
  EXPECT_FALSE(Separates({above, FloorDiv(six, Expr(2))}));
  EXPECT_FALSE(Separates({above, FloorMod(six, Expr(2))}));
  EXPECT_FALSE(Separates({above, FloorMod(six, Expr(4))}));  // 0 and 4 have the same digits
  // The elements i of a tile are the lowest digit. With five elements per tile, or a remainder by 10, the digits
  // overlap.
  Expr tiled = six * Expr(4) + i;
  EXPECT_TRUE(Separates({above, FloorDiv(six, Expr(3)), FloorMod(tiled, Expr(12))}, {{Name("i"), 4}}));
  EXPECT_FALSE(Separates({above, FloorDiv(six, Expr(3)), FloorMod(tiled, Expr(12))}, {{Name("i"), 5}}));
  EXPECT_FALSE(Separates({above, FloorDiv(six, Expr(3)), FloorMod(tiled, Expr(10))}, {{Name("i"), 4}}));
  // The quotient leaves out the digit p, which is still in the remainder.
  Expr p = IndexVar(Name("p")), quotient = FloorDiv(v * Expr(8) + i, Expr(7));
  Expr remainder = FloorMod(v * Expr(128) + i * Expr(16) + p, Expr(112));
  EXPECT_TRUE(Separates({quotient, remainder}, {{Name("i"), 8}, {Name("p"), 16}}));
  EXPECT_FALSE(Separates({quotient, remainder}, {{Name("i"), 8}, {Name("p"), 17}}));
  EXPECT_FALSE(Separates({quotient, remainder}, {{Name("i"), 9}, {Name("p"), 16}}));
}

TEST(Independence, DigitsThatDoNotFitTogether) {
  Expr v = IndexVar(Name("v")), w = v + Expr(2), i = IndexVar(Name("i"));
  EXPECT_FALSE(Separates({FloorDiv(FloorMod(w, Expr(10)), Expr(4)), FloorMod(w, Expr(4))}));  // 0 and 8 look the same
  EXPECT_FALSE(Separates({FloorDiv(v, Expr(11)), FloorMod(FloorDiv(v, Expr(3)), Expr(4)), FloorMod(v, Expr(5))}));
  EXPECT_FALSE(Separates({FloorDiv(v, Expr(12)), FloorDiv(FloorMod(v, Expr(12)), Expr(10)),
                          FloorDiv(FloorMod(v, Expr(10)), Expr(4)), FloorMod(v, Expr(4))}));
  EXPECT_FALSE(Separates({FloorDiv(v, i + Expr(1)), FloorMod(v, i + Expr(1))}, {{Name("i"), 3}}));
  // These digits overlap and still tell the iterations apart.
  EXPECT_TRUE(Separates({FloorDiv(v, Expr(3)), FloorMod(v, Expr(4))}));
  EXPECT_TRUE(Separates({FloorDiv(w, Expr(3)), FloorMod(w, Expr(4))}));
}

// Evaluates sums, products, quotients and remainders.
int64_t ValueOf(const Expr& e, const std::map<Name, int64_t>& values) {
  if (const int64_t* constant = AsInt(e)) return *constant;
  if (const Var* var = e.As<Var>()) return values.at(var->name);
  const Binary* b = e.As<Binary>();
  int64_t x = ValueOf(b->a, values), y = ValueOf(b->b, values);
  if (b->op == BinaryOp::kAdd) return x + y;
  if (b->op == BinaryOp::kMul) return x * y;
  const int64_t quotient = x / y;  // no operand is negative here
  return b->op == BinaryOp::kFloorDiv ? quotient : x - quotient * y;
}

TEST(Independence, WhatIsProvedHolds) {
  const Name v("v"), x("x"), i("i");
  Rng rng(1);
  auto draw = [&] {
    const int64_t k = 1 + rng.Below(5);
    std::vector<Expr> bases = {IndexVar(v), IndexVar(v) + Expr(k), IndexVar(x) * Expr(k) + IndexVar(v),
                               IndexVar(v) * Expr(k) + IndexVar(i),
                               FloorMod(IndexVar(v), Expr(k + 2)) * Expr(3) + IndexVar(i)};
    Expr e = bases[rng.Below(static_cast<int64_t>(bases.size()))];
    for (int64_t n = rng.Below(4); n > 0; --n) {
      Expr by = rng.Below(8) ? Expr(2 + rng.Below(11)) : IndexVar(i) + Expr(1);
      e = rng.Below(2) ? FloorDiv(e, by) : FloorMod(e, by);
    }
    return e;
  };
  int proved = 0;
  for (int run = 0; run < 4000; ++run) {
    std::vector<Expr> bindings = {draw()};
    while (bindings.size() < 4 && rng.Below(3)) bindings.push_back(draw());
    if (rng.Below(2)) {  // the quotient and the remainder of one sum
      Expr e = draw(), by(2 + rng.Below(11));
      bindings.push_back(FloorDiv(e, by));
      bindings.push_back(FloorMod(e, by));
    }
    if (!Separates(bindings, {{i, 3}})) continue;
    ++proved;
    for (int64_t outer = 0; outer < 3; ++outer) {
      std::map<std::vector<int64_t>, int64_t> first;  // instance -> iteration in which it occurs first
      for (int64_t at = 0; at < 16 * 3; ++at) {
        std::vector<int64_t> instance;
        for (const Expr& e : bindings) instance.push_back(ValueOf(e, {{v, at / 3}, {i, at % 3}, {x, outer}}));
        auto [known, added] = first.emplace(instance, at / 3);
        ASSERT_TRUE(added || known->second == at / 3) << run << ": iterations " << known->second << " and " << at / 3;
      }
    }
  }
  EXPECT_GT(proved, 400);
}

// Returns whether two instances with different v0 have the same values of all bindings and the same v2; v1 may differ.
bool Meet(const RandomIndex& g, const std::vector<Expr>& bindings) {
  std::map<std::pair<int64_t, std::vector<int64_t>>, std::set<int64_t>> loops;  // keys: v2 and the bindings; values: v0
  g.ForAll([&](const IndexEnv& env) {
    std::vector<int64_t> values;
    for (const Expr& e : bindings) values.push_back(EvalIndex(e, env));
    loops[{env[2].second, values}].insert(env[0].second);
    return true;
  });
  for (const auto& [at, values] : loops) {
    if (values.size() > 1) return true;
  }
  return false;
}

TEST(Independence, WhatSeparatesInstancesNeverMeets) {
  int separated = 0, meet = 0;
  for (int seed = 0; seed < kInstances && !HasFailure(); ++seed) {
    RandomIndex g(seed, true);
    std::vector<Expr> bindings;
    Expr shared = g.Index(1 + seed % 2);  // bindings are digits of one sum, as after splits and fusions
    int64_t factor = 2 + g.rng.Below(4);
    if (g.rng.Below(3)) bindings = {FloorDiv(shared, Expr(factor)), FloorMod(shared, Expr(factor))};
    for (int64_t more = g.rng.Below(3); more > 0; --more) bindings.push_back(g.Index(g.rng.Below(3)));
    Block block;
    block.name = Name("b");
    for (size_t i = 0; i < bindings.size(); ++i) {
      block.iters.push_back({Name("i" + std::to_string(i)), IterKind::kSpatial, Expr(1000), bindings[i]});
    }
    bool says = SeparatesInstances(block, {g.vars[0].name, g.vars[0].high + 1}, {{g.vars[1].name, g.vars[1].high + 1}});
    bool meets = Meet(g, bindings);
    meet += meets;
    separated += says && g.vars[0].high > 0;
    std::string text;
    for (const Expr& e : bindings) text += ToText(e) + ", ";
    EXPECT_FALSE(says && meets) << "seed " << seed << " " << g.Ranges() << text;
  }
  EXPECT_GT(separated, kInstances / 40);
  EXPECT_GT(meet, kInstances / 4);
}

}  // namespace
}  // namespace autotune::schedule
