#include <gtest/gtest.h>

#include "arith/analyzer.h"
#include "ir/text.h"
#include "tests/arith/index_var.h"

namespace autotune {
namespace {

using test::V;

Stmt Loop(const char* var, Expr extent, Stmt body) {
  return MakeStmt(For{var, extent, LoopKind::kSerial, {}, std::move(body)});
}

TEST(SimplifyStmt, DropsWhatIsDecidedAndKeepsLoopsOfOne) {
  Buffer b = Buffer::Make("b", DType::Float(32), {Expr(64)});
  auto store = [&](Expr i) { return MakeStmt(Store{b, {i}, FloatConst(1)}); };
  Expr x = V("x"), y = V("y");
  Stmt s = Loop("x", 8, Loop("y", 8, MakeStmt(If{x * 8 + y < 64, store(FloorDiv(x * 8 + y, 8)), Stmt()})));
  EXPECT_TRUE(Equal(SimplifyStmt(s), Loop("x", 8, Loop("y", 8, store(x)))));
  Stmt t = Loop("x", 8, Loop("y", 8, MakeStmt(If{x * 8 + y < 63, store(x), Stmt()})));
  EXPECT_TRUE(SimplifyStmt(t).Same(t));
  EXPECT_TRUE(Equal(SimplifyStmt(Loop("x", 1, store(x + 3))), Loop("x", 1, store(Expr(3)))));
  EXPECT_TRUE(IsEmpty(SimplifyStmt(Loop("x", 0, store(x)))));
  EXPECT_TRUE(IsEmpty(SimplifyStmt(MakeStmt(If{BoolConst(false), store(0), Stmt()}))));
}

TEST(SimplifyStmt, PredicatesThatAlwaysHoldGo) {
  Buffer b = Buffer::Make("b", DType::Float(32), {Expr(56)});
  auto nest = [&](int64_t outer, Expr predicate) {
    Stmt block = MakeStmt(Block{"k",
                                {Iter{"v", IterKind::kSpatial, Expr(56), V("i") * 6 + V("j")}},
                                predicate,
                                {},
                                Stmt(),
                                MakeStmt(Store{b, {V("v")}, FloatConst(0)})});
    return Loop("i", outer, Loop("j", 6, block));
  };
  Expr guard = V("i") * 6 + V("j") < 56;
  EXPECT_TRUE(Equal(SimplifyStmt(nest(9, guard)), nest(9, Expr())));
  EXPECT_TRUE(SimplifyStmt(nest(10, guard)).Same(nest(10, guard)) ||
              Equal(SimplifyStmt(nest(10, guard)), nest(10, guard)));
  // A guard on the iterator itself is not implied by the iterator's extent.
  EXPECT_TRUE(Equal(SimplifyStmt(nest(10, V("v") < 56)), nest(10, V("v") < 56)));
  EXPECT_TRUE(Equal(SimplifyStmt(nest(9, V("v") < 56)), nest(9, Expr())));
}

}  // namespace
}  // namespace autotune
