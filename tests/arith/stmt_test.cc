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

class Regions : public ::testing::Test {
 protected:
  // "min+extent" per dimension of the reads or writes of a buffer.
  std::string Of(const Stmt& s, const std::vector<VarRange>& free, const Buffer& buffer, bool write = false) {
    for (const BufferRegion& r : AccessedRegions(s, free)) {
      if (!(r.buffer->name == buffer->name) || r.write != write) continue;
      std::string text;
      for (size_t d = 0; d < r.min.size(); ++d) {
        text += (d ? ", " : "") + ToText(r.min[d]) + " +" + ToText(r.extent[d]);
      }
      return text;
    }
    return "none";
  }
  Stmt Copy(const Buffer& from, std::vector<Expr> indices) {
    return MakeStmt(Store{out, {Expr(0)}, MakeLoad(from, std::move(indices))});
  }
  Buffer out = Buffer::Make("out", DType::Float(32), {Expr(1)});
  Buffer in = Buffer::Make("in", DType::Float(32), {Expr(114), Expr(64)});
};

TEST_F(Regions, AffineWindows) {
  Stmt s = Copy(in, {V("h") * 2 + V("rh"), V("c")});
  EXPECT_EQ(Of(s, {{"rh", 3}, {"c", 64}}, in), "h * 2 +3, 0 +64");
  EXPECT_EQ(Of(s, {{"rh", 3}, {"h", 4}}, in), "0 +9, c +1");
  EXPECT_EQ(Of(s, {}, in), "h * 2 + rh +1, c +1");
  EXPECT_EQ(Of(s, {}, out, true), "0 +1");
  EXPECT_EQ(Of(s, {}, out), "none");
  EXPECT_EQ(Of(Copy(in, {Expr(50) - V("h"), V("c")}), {{"h", 4}}, in), "47 +4, c +1");
}

TEST_F(Regions, TilesThroughBlocksAndLoops) {
  Stmt block = MakeStmt(Block{"b",
                              {Iter{"v", IterKind::kSpatial, Expr(114), V("o") * 6 + V("i")}},
                              V("o") * 6 + V("i") < 114,
                              {},
                              Stmt(),
                              Copy(in, {V("v"), Expr(3)})});
  EXPECT_EQ(Of(Loop("i", 6, block), {}, in), "o * 6 +6, 3 +1");
  EXPECT_EQ(Of(block, {{"i", 6}}, in), "o * 6 +6, 3 +1");
  EXPECT_EQ(Of(block, {{"i", 6}, {"o", 19}}, in), "0 +114, 3 +1");
}

TEST_F(Regions, DivisionsAndUnions) {
  EXPECT_EQ(Of(Copy(in, {FloorDiv(V("o") * 16 + V("i"), 4), Expr(0)}), {{"i", 16}}, in), "o * 4 +4, 0 +1");
  EXPECT_EQ(Of(Copy(in, {FloorDiv(V("o") + V("i"), 4), Expr(0)}), {{"i", 8}}, in), "o // 4 +3, 0 +1");
  EXPECT_EQ(Of(Copy(in, {FloorMod(V("o") + V("i"), 4), Expr(0)}), {{"i", 8}}, in), "0 +4, 0 +1");
  EXPECT_EQ(Of(MakeSeq({Copy(in, {V("o"), Expr(0)}), Copy(in, {V("o") + 3, Expr(0)})}), {}, in), "o +4, 0 +1");
  EXPECT_EQ(Of(MakeSeq({Copy(in, {V("o"), Expr(0)}), Copy(in, {V("p"), Expr(0)})}), {}, in), "0 +114, 0 +1");
  EXPECT_EQ(Of(Copy(in, {V("o") * V("i"), Expr(0)}), {{"i", 8}}, in), "0 +114, 0 +1");
}

TEST_F(Regions, ConditionsNarrow) {
  Expr h = V("h");
  Expr padded = MakeSelect(And(h >= 1, h < 5), MakeLoad(in, {h - 1, Expr(0)}), FloatConst(0));
  EXPECT_EQ(Of(MakeStmt(Store{out, {Expr(0)}, padded}), {{"h", 58}}, in), "0 +4, 0 +1");
  EXPECT_EQ(Of(MakeStmt(Store{out, {Expr(0)}, MakeLoad(in, {h, Expr(0)})}), {{"h", 58}}, in), "0 +58, 0 +1");
}

}  // namespace
}  // namespace autotune
