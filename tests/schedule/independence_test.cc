// Which iterators tell the iterations of a loop apart.
#include <gtest/gtest.h>

#include "schedule/region.h"

namespace autotune::schedule {
namespace {

// Of loops x (outer) and v (16 iterations), for iterators bound to these expressions.
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
  EXPECT_FALSE(Separates({FloorDiv(y, Expr(3)), FloorMod(z, Expr(3))}));                      // of different sums
  EXPECT_FALSE(Separates({FloorDiv(y, Expr(4)), FloorMod(y, Expr(3))}));                      // a digit is missing
  EXPECT_FALSE(Separates({FloorMod(y, Expr(13)), FloorMod(FloorDiv(y, Expr(3)), Expr(6))}));  // 4 and 17 agree
  EXPECT_FALSE(Separates({FloorDiv(y, Expr(3)), FloorMod(y, Expr(3))}, {{Name("x"), 4}}));    // x is inside
  EXPECT_TRUE(Separates({FloorDiv(y, Expr(3)), v}));                                          // v alone does
  Expr twice = x * Expr(16) + v * Expr(2);
  EXPECT_TRUE(Separates({FloorDiv(twice, Expr(3)), FloorMod(twice, Expr(3))}));
  EXPECT_FALSE(Separates({FloorDiv(twice, Expr(4)), FloorMod(twice, Expr(2))}));  // a digit is missing
}

TEST(Independence, DigitsOfDigits) {
  Expr v = IndexVar(Name("v")), i = IndexVar(Name("i")), six = FloorMod(v, Expr(6)), above = FloorDiv(v, Expr(6));
  EXPECT_TRUE(Separates({above, FloorDiv(six, Expr(2)), FloorMod(six, Expr(2))}));
  EXPECT_FALSE(Separates({above, FloorDiv(six, Expr(2))}));
  EXPECT_FALSE(Separates({above, FloorMod(six, Expr(2))}));
  EXPECT_FALSE(Separates({above, FloorMod(six, Expr(4))}));  // 0 and 4 agree
  // A tile's elements below them; those of a larger tile carry.
  Expr tiled = six * Expr(4) + i;
  EXPECT_TRUE(Separates({above, FloorDiv(six, Expr(3)), FloorMod(tiled, Expr(12))}, {{Name("i"), 4}}));
  EXPECT_FALSE(Separates({above, FloorDiv(six, Expr(3)), FloorMod(tiled, Expr(12))}, {{Name("i"), 5}}));
  EXPECT_FALSE(Separates({above, FloorDiv(six, Expr(3)), FloorMod(tiled, Expr(10))}, {{Name("i"), 4}}));
}

}  // namespace
}  // namespace autotune::schedule
