#include <gtest/gtest.h>

#include "ir/visit.h"
#include "support/check.h"

namespace autotune {
namespace {

PrimFunc Example(int64_t extent) {
  Buffer a = Buffer::Make("a", DType::Float(32), {Expr(16)}), b = Buffer::Make("b", DType::Float(32), {Expr(16)});
  Expr v = IndexVar("v");
  Stmt body = MakeStmt(Store{b, {v}, MakeLoad(a, {v}) * FloatConst(2)});
  Stmt block =
      MakeStmt(Block{"twice", {Iter{"v", IterKind::kSpatial, extent, IndexVar("i")}}, Expr(), {}, Stmt(), body});
  return PrimFunc{"f",
                  {{a, ParamRole::kInput}, {b, ParamRole::kOutput}},
                  {},
                  {},
                  MakeStmt(For{"i", extent, LoopKind::kSerial, {}, block})};
}

TEST(Ir, EqualityAndHashAgree) {
  EXPECT_TRUE(Equal(Example(16), Example(16)));
  EXPECT_EQ(StructuralHash(Example(16)), StructuralHash(Example(16)));
  EXPECT_FALSE(Equal(Example(16), Example(8)));
  EXPECT_NE(StructuralHash(Example(16)), StructuralHash(Example(8)));
  EXPECT_EQ(FirstMismatch(Example(16), Example(8)), "body.extent.value: 16 != 8");
  EXPECT_EQ(FirstMismatch(Example(16), Example(16)), "");
}

TEST(Ir, RewriteThatChangesNothingKeepsTheHandle) {
  PrimFunc f = Example(16);
  EXPECT_TRUE(Substitute(f.body, {{"absent", Expr(1)}}).Same(f.body));
  EXPECT_FALSE(Substitute(f.body, {{"i", Expr(1)}}).Same(f.body));
}

TEST(Ir, IndexConstantsFold) {
  Expr x = IndexVar("x");
  EXPECT_TRUE((x + 0).Same(x));
  EXPECT_TRUE(IsConst(x * 0, 0));
  EXPECT_TRUE(IsConst(FloorDiv(Expr(-7), Expr(2)), -4));
  EXPECT_TRUE(IsConst(FloorMod(Expr(-7), Expr(2)), 1));
  EXPECT_FALSE((FloatConst(1) + FloatConst(0)).As<FloatImm>());
}

TEST(Ir, MixedDtypesAreOurBug) { EXPECT_THROW(IndexVar("x") + FloatConst(1), InternalError); }

}  // namespace
}  // namespace autotune
