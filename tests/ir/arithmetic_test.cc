// The operation counts of expressions and programs.
#include "ir/arithmetic.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace autotune {
namespace {

class ArithmeticTest : public ::testing::Test {
 protected:
  Buffer x = Buffer::Make("x", DType::Float(32), {Expr(64)});
  Buffer n = Buffer::Make("n", DType::Int(32), {Expr(64)});
  Expr i = IndexVar("i"), a = MakeLoad(x, {i}), b = MakeLoad(x, {i * 2 + 1});
};

TEST_F(ArithmeticTest, ClassesAndWeights) {
  Arithmetic count = ArithmeticOf(MakeCall(Op::kFma, {a, b, Max(a - b, -a)}) / (a * b));
  EXPECT_EQ(count.fma, 1);
  EXPECT_EQ(count.add, 2);
  EXPECT_EQ(count.multiply, 1);
  EXPECT_EQ(count.divide, 1);
  EXPECT_EQ(count.compare, 1);
  EXPECT_EQ(count.transcendental, 0);
  EXPECT_EQ(count.Flops(), 7);
  count = ArithmeticOf(MakeCall(Op::kExp, {MakeCall(Op::kSqrt, {a})}));
  EXPECT_EQ(count.transcendental, 1);
  EXPECT_EQ(count.Flops(), 2);
  EXPECT_GT(count.Cost(), 10);
}

TEST_F(ArithmeticTest, IndicesAndConditionsCountNothing) {
  EXPECT_EQ(ArithmeticOf(b).Flops(), 0);
  EXPECT_EQ(ArithmeticOf(MakeSelect(i * 3 < 5, a, b)).Flops(), 0);
  EXPECT_EQ(ArithmeticOf(MakeSelect(i * 3 < 5, a, b)).Cost(), 0);
  EXPECT_EQ(ArithmeticOf(MakeSelect(i * 3 < 5, a, b)).select, 1);
  EXPECT_EQ(ArithmeticOf(MakeSelect(a * b < a, a, b)).Flops(), 1) << "arithmetic in a condition counts";
  // An element that serves as a subscript, and what is computed from it there, is an address.
  const Expr at = MakeCast(DType::Index(), MakeLoad(n, {i}) + MakeLoad(n, {i + 1}));
  EXPECT_EQ(ArithmeticOf(MakeLoad(n, {at})).Flops(), 0);
  EXPECT_EQ(ArithmeticOf(MakeCast(DType::Int(32), i * 2 + 1)).Flops(), 0);
}

TEST_F(ArithmeticTest, IntegerElementsCountLikeFloats) {
  const Expr k = MakeLoad(n, {i}), l = MakeLoad(n, {i + 1});
  Arithmetic count = ArithmeticOf(k + l * k);  // a multiply-add
  EXPECT_EQ(count.add, 1);
  EXPECT_EQ(count.multiply, 1);
  EXPECT_EQ(count.Flops(), 2);
  EXPECT_EQ(ArithmeticOf(Max(k, l)).compare, 1);
  EXPECT_EQ(ArithmeticOf(MakeSelect(k < l, k, l)).Flops(), 0) << "a comparison is a condition";
  // Conversions move elements.
  EXPECT_EQ(ArithmeticOf(MakeCast(DType::Int(32), MakeLoad(x, {i}))).Flops(), 0);
}

// Shifts and masks, which unpack numbers, take time, but are no arithmetic.
TEST_F(ArithmeticTest, OperationsOnBitsAreNoFlops) {
  const Expr k = MakeLoad(n, {i}), l = MakeLoad(n, {i + 1});
  for (const BinaryOp op : {BinaryOp::kShl, BinaryOp::kShr, BinaryOp::kBitAnd, BinaryOp::kBitOr, BinaryOp::kBitXor}) {
    const Arithmetic count = ArithmeticOf(MakeBinary(op, k, l));
    EXPECT_EQ(count.bits, 1);
    EXPECT_EQ(count.Flops(), 0);
    EXPECT_EQ(count.Cost(), 1);
  }
  EXPECT_EQ(ArithmeticOf(MakeBinary(BinaryOp::kShl, k, l) + l).Flops(), 1) << "the addition counts";
}

TEST_F(ArithmeticTest, StatementsCountEachExecution) {
  Stmt store = MakeStmt(Store{x, {i}, a + b});
  Stmt loop = MakeStmt(For{"j", Expr(5), LoopKind::kSerial, {}, MakeSeq({store, store})});
  EXPECT_EQ(ArithmeticOf(loop).Flops(), 10);
  EXPECT_EQ(ArithmeticOf(MakeStmt(For{"j", IndexVar("m"), LoopKind::kSerial, {}, store})).Flops(), 1);
  // A block counts its iterators' values, even if its loops have more iterations. Its init does not count.
  Stmt block = MakeStmt(Block{"B",
                              {Iter{"v", IterKind::kSpatial, Expr(3), i}, Iter{"r", IterKind::kReduce, Expr(4), i}},
                              IndexVar("v") < 3,
                              {},
                              store,
                              store});
  EXPECT_EQ(ArithmeticOf(block).Flops(), 12);
  EXPECT_EQ(ArithmeticOf(MakeStmt(For{"i", Expr(100), LoopKind::kSerial, {}, block})).Flops(), 12);
}

TEST(Arithmetic, BytesOfParamsCountEachParameterOnceAndNoTemporary) {
  const char text[] =
      "func f(a: f32[3, 5] input, b: f16[7] constant, y: i8[2, 2, 2] output) {\n"
      "local s: f32[100]\n s[0] = 0.0 }";
  Result<PrimFunc> f = ParsePrimFunc(text);
  ASSERT_TRUE(f.ok()) << f.error().Text();
  EXPECT_EQ(BytesOfParams(*f), 3 * 5 * 4 + 7 * 2 + 8 * 1);
}

}  // namespace
}  // namespace autotune
