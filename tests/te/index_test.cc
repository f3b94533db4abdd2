#include "te/index.h"

#include <gtest/gtest.h>

#include "ir/visit.h"
#include "support/check.h"
#include "support/rng.h"

namespace autotune::te {
namespace {

// Returns the subscripts for these values of the variables. Index arithmetic on constants folds.
Shape At(const std::vector<Expr>& subscripts, const VarMap& values) {
  Shape out;
  for (const Expr& e : subscripts) {
    Expr value = Substitute(e, values);
    CHECK(AsInt(value));
    out.push_back(*AsInt(value));
  }
  return out;
}

int64_t Flat(const Shape& index, const Shape& shape) {
  int64_t flat = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    CHECK(index[d] >= 0 && index[d] < shape[d]) << "out of bounds";
    flat = flat * shape[d] + index[d];
  }
  return flat;
}

// Returns a random shape with the product of `factors`: groups neighbouring factors at random and inserts ones.
Shape Regroup(const Shape& factors, Rng& rng) {
  Shape shape;
  bool open = false;
  for (int64_t f : factors) {
    if (rng.Below(4) == 0) shape.push_back(1), open = false;
    if (open && rng.Below(2)) {
      shape.back() *= f;
    } else {
      shape.push_back(f);
    }
    open = true;
  }
  if (rng.Below(3) == 0) shape.push_back(1);
  return shape;
}

TEST(ReshapeIndicesTest, AddressesTheSameElement) {
  Rng rng(1);
  for (int i = 0; i < 300; ++i) {
    Shape factors;
    for (int64_t n = rng.Below(5); n-- > 0;) factors.push_back(1 + rng.Below(4));
    Shape from = Regroup(factors, rng), to = Regroup(factors, rng);
    std::vector<Expr> vars;
    VarMap values;
    Shape index;
    for (size_t d = 0; d < from.size(); ++d) {
      std::string name = "x" + std::to_string(d);
      vars.push_back(IndexVar(name));
      index.push_back(rng.Below(from[d]));
      values.emplace(name, index.back());
    }
    std::vector<Expr> there = ReshapeIndices(vars, from, to);
    ASSERT_EQ(there.size(), to.size());
    EXPECT_EQ(Flat(At(there, values), to), Flat(index, from));
    // The opposite reshape, composed with this one, gives the original index.
    EXPECT_EQ(At(ReshapeIndices(there, to, from), values), index);
  }
}

TEST(ReshapeIndicesTest, WritesNoNeedlessArithmetic) {
  Expr n = IndexVar("n"), m = IndexVar("m"), c = IndexVar("c");
  std::vector<Expr> logical = ReshapeIndices({n, m, c}, {2, 35, 4}, {2, 5, 7, 4});
  EXPECT_TRUE(Equal(logical[0], n));
  EXPECT_TRUE(Equal(logical[1], FloorDiv(m, 7)));
  EXPECT_TRUE(Equal(logical[2], FloorMod(m, 7)));
  EXPECT_TRUE(Equal(logical[3], c));
  std::vector<Expr> back = ReshapeIndices(logical, {2, 5, 7, 4}, {2, 35, 4});
  EXPECT_TRUE(Equal(back[1], m));
  // A reshape does not undo a different split.
  std::vector<Expr> other = ReshapeIndices({n, FloorDiv(m, 5), FloorMod(m, 5), c}, {2, 5, 7, 4}, {2, 35, 4});
  EXPECT_FALSE(Equal(other[1], m));
}

TEST(ReshapeIndicesTest, RefusesAnotherNumberOfElements) {
  EXPECT_THROW(ReshapeIndices({IndexVar("a")}, {6}, {2, 2}), InternalError);
  EXPECT_THROW(ReshapeIndices({IndexVar("a")}, {2, 3}, {6}), InternalError);
}

TEST(BroadcastTest, Shapes) {
  Shape out;
  EXPECT_TRUE(BroadcastShapes({2, 1, 3}, {4, 1}, &out));
  EXPECT_EQ(out, (Shape{2, 4, 3}));
  EXPECT_TRUE(BroadcastShapes({}, {4}, &out));
  EXPECT_EQ(out, (Shape{4}));
  EXPECT_FALSE(BroadcastShapes({2}, {3}, &out));
  EXPECT_FALSE(BroadcastShapes({2, 3}, {2}, &out));
}

}  // namespace
}  // namespace autotune::te
