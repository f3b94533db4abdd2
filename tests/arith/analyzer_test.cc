#include "arith/analyzer.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "tests/arith/index_var.h"

namespace autotune {
namespace {

using test::V;

class Simplify : public ::testing::Test {
 protected:
  // Checks that `e` simplifies to `expected`, and that simplifying again changes nothing. A failure shows both texts.
  void Same(const Expr& e, const Expr& expected) {
    Expr got = a.Simplify(e);
    EXPECT_TRUE(Equal(got, expected)) << ToText(e) << "\n  gave     " << ToText(got) << "\n  expected "
                                      << ToText(expected);
    EXPECT_TRUE(a.Simplify(got).Same(got)) << "not idempotent: " << ToText(got) << " -> " << ToText(a.Simplify(got));
  }
  Analyzer a;
  Expr x = V("x"), y = V("y"), z = V("z"), i = V("i");
};

TEST_F(Simplify, SplitAndFuseComeOutAsPeopleWriteThem) {
  a.Bind("y", 0, 15);
  Same(FloorDiv(x * 16 + y, 16), x);
  Same(FloorMod(x * 16 + y, 16), y);
  Same(FloorDiv(y + x * 16 + 32, 16), x + 2);
  Same(FloorDiv(x * 16 + y + 1, 16), x + FloorDiv(y + 1, 16));
  Same(FloorMod(x * 16 - 1, 16), Expr(15));
  Same(FloorDiv(x * 16 - 1, 16), x - 1);
}

TEST_F(Simplify, TilesThatDoNotDivideStay) {
  a.Bind("x", 0, 9);
  a.Bind("i", 0, 5);
  Same(FloorDiv(x * 6 + i, 56), FloorDiv(x * 6 + i, 56));
  Same(x * 6 + i < 56, x * 6 + i < 56);
  Same(x * 6 + i < 60, BoolConst(true));
  Same(x * 6 + i < 54, x < 9);
}

TEST_F(Simplify, ACommonFactorIsTakenOut) {
  a.Bind("i", 0, 6);
  Same(FloorDiv(x * 7 + i, 56), FloorDiv(x, 8));
  Same(FloorMod(x * 7 + i, 56), FloorMod(x, 8) * 7 + i);
  Same(FloorMod(x * 4, 8), FloorMod(x, 2) * 4);
}

TEST_F(Simplify, QuotientAndRemainderMeetAgain) {
  Expr m = V("m"), c = V("c");
  Same(FloorDiv(m, 56) * (56 * 64) + FloorMod(m, 56) * 64 + c, m * 64 + c);
  Same(FloorDiv(x, 16) * 16 + FloorMod(FloorDiv(x, 4), 4) * 4 + FloorMod(x, 4), x);
  Same(x - FloorDiv(x, 4) * 4, FloorMod(x, 4));
  Same(x - FloorMod(x, 4), FloorDiv(x, 4) * 4);
  Same(FloorDiv(x + 5, 8) * 8 + FloorMod(x + 5, 8), x + 5);
  Same(FloorDiv(x, 4) * 8 + FloorMod(x, 4), FloorDiv(x, 4) * 8 + FloorMod(x, 4));  // not the same quotient
  // Offsets of rows of a tile: the remainder's coefficients are reduced by the divisor, the quotient's are not.
  Same(FloorDiv(x * 66 + y * 6, 28) * (28 * 128) + FloorMod(x * 66 + y * 6, 28) * 128, x * (66 * 128) + y * (6 * 128));
  Same(FloorDiv(x * 66 + y * 6 + 31, 28) * 28 + FloorMod(x * 66 + y * 6 + 31, 28), x * 66 + y * 6 + 31);
  Same(FloorDiv(x * 34 + y * 3, 14) * 14 + FloorMod(x * 33 + y * 3, 14),
       FloorDiv(x * 34 + y * 3, 14) * 14 + FloorMod(x * 5 + y * 3, 14));
  // Adjacent digits of a number, where the higher digit is reduced by a modulus.
  Same(FloorMod(x * 20 + FloorDiv(y, 4), 3) * 4 + FloorMod(y, 4), FloorMod(x * 8 + y, 12));
  Same(FloorDiv(x * 80 + y, 12) * 12 + FloorMod(x * 20 + FloorDiv(y, 4), 3) * 4 + FloorMod(y, 4), x * 80 + y);
  Same(FloorMod(x + FloorDiv(y, 4), 3) * 4 + FloorMod(y + 1, 4),
       FloorMod(x + FloorDiv(y, 4), 3) * 4 + FloorMod(y + 1, 4));  // not the next digit
}

TEST_F(Simplify, NestedDivisions) {
  Same(FloorDiv(FloorDiv(x, 4), 8), FloorDiv(x, 32));
  Same(FloorMod(FloorMod(x, 32), 8), FloorMod(x, 8));
  Same(FloorDiv(FloorMod(x, 32), 8), FloorMod(FloorDiv(x, 8), 4));
  Same(FloorMod(FloorMod(x, 6), 4), FloorMod(FloorMod(x, 6), 4));
  Same(FloorDiv(FloorDiv(x, 4) + 3, 8), FloorDiv(x + 12, 32));
}

TEST_F(Simplify, LinearParts) {
  Same(x + y - x, y);
  Same((x + 2) * 3 - 6, x * 3);
  Same(y + x * 4, x * 4 + y);
  Same(Expr(5) - x, Expr(5) - x);
  Same(-(x - y), y - x);
  Same(x * y - y * x, Expr(0));
}

TEST_F(Simplify, MinAndMaxByBounds) {
  a.Bind("x", 0, 7);
  Same(Min(x, 8), x);
  Same(Max(x, 8), Expr(8));
  Same(Min(x, 7), x);
  Same(Min(x, 6), Min(x, 6));
  Same(Min(Min(y, 9), 4), Min(y, 4));
  Same(Min(y + x, y + 9), x + y);
}

TEST_F(Simplify, Conditions) {
  a.Bind("x", 0, 7);
  a.Bind("y", 0, 7);
  Same(x * 8 + y < 64, BoolConst(true));
  Same(x * 8 + y >= 64, BoolConst(false));
  Same(x * 8 + y < 63, x * 8 + y < 63);
  Same(Expr(3) <= x, x >= 3);
  Same(Expr(3) > x, x < 3);
  Same(Eq(x * 2, 3), BoolConst(false));
  Same(Eq(x * 2, 4), Eq(x, 2));
  Same(And(x < 4, x < 9), x < 4);
  Same(And(x < 4, x < 2), x < 2);
  Same(Or(x < 4, x >= 4), BoolConst(true));
  Same(And(x < 4, x >= 4), BoolConst(false));
  Same(Not(x < 4), x >= 4);
  Same(Not(Not(x < 4)), x < 4);
  Same(FloorDiv(z, 4) < 3, z < 12);
  Same(FloorDiv(z, 4) >= 3, z >= 12);
  Same(x < y, x < y);
  Same(y > x, x < y);
}

TEST_F(Simplify, SelectsWithDecidedConditions) {
  a.Bind("x", 0, 7);
  Same(MakeSelect(x < 8, y, z), y);
  Same(MakeSelect(x < 4, MakeSelect(x < 5, y, z), z), MakeSelect(x < 4, y, z));
  Same(MakeSelect(x < 4, MakeSelect(x >= 4, y, z), z), z);
  Same(MakeSelect(x < 4, y, y), y);
  Expr padded = MakeSelect(And(y >= 1, y < 57), FloatConst(1), FloatConst(0));
  Same(padded, padded);
}

TEST_F(Simplify, FloatsAreNotRearranged) {
  Expr f = VarOf("f", DType::Float(32));
  for (const Expr& e : {f + FloatConst(0), f * FloatConst(1), f - f, FloatConst(1) + FloatConst(2), Eq(f, f),
                        f * FloatConst(0), Not(f < FloatConst(1))}) {
    EXPECT_TRUE(a.Simplify(e).Same(e)) << ToText(e);
  }
  Buffer b = Buffer::Make("b", DType::Float(32), {Expr(64)});
  Expr load = MakeLoad(b, {x}) + FloatConst(0);
  EXPECT_TRUE(a.Simplify(load).Same(load));
  Same(MakeLoad(b, {x + 1 - 1}) + FloatConst(0), load);
}

TEST_F(Simplify, SmallIntegersWrap) {
  Expr u = VarOf("u", DType::UInt(8)), c200 = IntConst(200, DType::UInt(8)), c100 = IntConst(100, DType::UInt(8));
  Same(c200 + c100, IntConst(44, DType::UInt(8)));
  Same(u < c200, u < c200);
  Same(u >= IntConst(0, DType::UInt(8)), BoolConst(true));
  Same((u + c200) >= c200, (u + c200) >= c200);
}

TEST(Analyzer, UnchangedIsTheSameHandle) {
  Analyzer a;
  Expr e = V("x") * 6 + V("y");
  EXPECT_TRUE(a.Simplify(e).Same(e));
  Expr f = V("y") + V("x") * 6;
  EXPECT_FALSE(a.Simplify(f).Same(f));
}

TEST(Analyzer, Bounds) {
  Analyzer a;
  a.Bind("x", 0, 7);
  a.Bind("y", 0, 3);
  Expr x = V("x"), y = V("y"), z = V("z");
  auto bounds = [&](const Expr& e) {
    Interval i = a.Bounds(e);
    return std::pair(i.low.value_or(-999), i.high.value_or(999));
  };
  EXPECT_EQ(bounds(x * 4 + y), std::pair(0L, 31L));
  EXPECT_EQ(bounds(x - y), std::pair(-3L, 7L));
  EXPECT_EQ(bounds(FloorDiv(x, 2) - 5), std::pair(-5L, -2L));
  EXPECT_EQ(bounds(FloorMod(z, 5)), std::pair(0L, 4L));
  EXPECT_EQ(bounds(z), std::pair(-999L, 999L));
  EXPECT_EQ(bounds(Max(z, 2)), std::pair(2L, 999L));
  EXPECT_EQ(bounds(Min(6, Expr(56) - x * 6) + x * 6), std::pair(6L, 48L));
}

TEST(Analyzer, AssumptionsNarrow) {
  Analyzer a;
  a.Bind("x", 0, 63);
  Expr x = V("x"), y = V("y"), n = V("n");
  EXPECT_FALSE(a.Proves(x < 10));
  Analyzer inner = a;
  inner.Assume(x < 10);
  EXPECT_TRUE(inner.Proves(x < 10));
  EXPECT_TRUE(inner.Proves(x < 11));
  EXPECT_FALSE(inner.Proves(x < 9));
  inner.Assume(y < n);
  EXPECT_TRUE(inner.Proves(y <= n));
  EXPECT_TRUE(inner.Proves(y + 1 <= n));
  EXPECT_FALSE(inner.Proves(y + 2 <= n));
  inner.Assume(V("i") < Min(6, Expr(56) - V("t") * 6));
  EXPECT_TRUE(inner.Proves(V("t") * 6 + V("i") < 56));
  EXPECT_FALSE(inner.Proves(V("t") * 6 + V("i") < 55));
  EXPECT_FALSE(a.Proves(V("t") * 6 + V("i") < 56));
}

TEST(Linear, TermsInOrderOfAppearance) {
  Expr x = V("x"), y = V("y");
  LinearForm f = ToLinear(y * 3 + (x - 2) * 4 + FloorDiv(x, 2) + 1);
  auto variables = f.Variables();
  ASSERT_EQ(variables.size(), 2u);
  EXPECT_EQ(variables[0].var, Name("y"));
  EXPECT_EQ(variables[0].coefficient, 3);
  EXPECT_EQ(f.Coefficient(Name("x")), 4);
  EXPECT_EQ(f.Coefficient(Name("z")), 0);
  EXPECT_EQ(f.constant, -7);
  ASSERT_TRUE(static_cast<bool>(f.Rest()));
  EXPECT_TRUE(Equal(f.Rest(), FloorDiv(x, 2)));
  EXPECT_FALSE(static_cast<bool>(ToLinear(x + y).Rest()));
}

}  // namespace
}  // namespace autotune
