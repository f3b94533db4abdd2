#include "ir/verify.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir/visit.h"

namespace autotune {
namespace {

// Checks that verifying `text` gives `error`; an empty `error` means that the text is well-formed.
void Checked(const std::string& text, const std::string& error, Dialect dialect = Dialect::kEither) {
  auto f = ParsePrimFunc(text);
  ASSERT_TRUE(f.ok()) << f.error().Text() << "\n" << text;
  Status status = Verify(*f, dialect);
  if (error.empty()) {
    EXPECT_TRUE(status.ok()) << status.error().Text();
  } else {
    ASSERT_FALSE(status.ok()) << text;
    EXPECT_NE(status.error().message.find(error), std::string::npos) << status.error().message;
  }
}
void Body(const std::string& body, const std::string& error, Dialect dialect = Dialect::kEither) {
  Checked("func f(x: f32[4] input, out: f32[4] output) { " + body + " }", error, dialect);
}

TEST(Verify, NamesAreBoundOnceAndUsedInScope) {
  Body("for i in 4 { block b(v: S 4 = i) { out[v] = x[v] } }", "");
  Body("for i in 4 { block b(v: S 4 = i) { out[v] = x[i] } }", "variable i is not in scope, in block b");
  Body("for i in 4 { block b(v: S 4 = j) { out[v] = x[v] } }", "variable j is not in scope");
  Body("for i in 4 { for i in 4 { block b(v: S 4 = i) { out[v] = x[v] } } }", "variable i is bound twice");
  Body("for i in 4 { block b(v: S 4 = i) { out[v] = x[v] } } for j in 4 { block b(w: S 4 = j) { out[w] = x[w] } }",
       "two blocks named b");
  Body("for i in 4 { block b(v: S 4 = i) { out[v] = x[v] } } for j in 4 { block c(v: S 4 = j) { out[v] = x[v] } }",
       "variable v is bound twice");
  Body("for i in 4 { block b(v: S 4 = i) where i < v + 1 { out[v] = x[v] } }", "");
  Body("for i in 4 { block b(v: S 4 = i) where j < 4 { out[v] = x[v] } }", "variable j is not in scope");
  Checked("func f(x: f32[n] input, out: f32[n] output) { for i in n { out[i] = x[i] } }", "");
  Checked("func f(x: f32[4] input, out: f32[4] output) { for i in n { out[i] = x[i] } }", "variable n is not in scope");
  Checked("func f(x: f32[n * 2] input) { }", "variable n is not in scope");
}

TEST(Verify, DialectsDoNotMix) {
  Body("for i in 4 { out[i] = x[i] }", "");
  Body("for i in 4 { out[i] = x[i] }", "outside of a block", Dialect::kSchedulable);
  Body("for i in 4 { block b(v: S 4 = i) { out[v] = x[v] } }", "after lowering", Dialect::kLowered);
  Body("for i in 4 { block b(v: S 4 = i) { block c(w: S 4 = v) { out[w] = x[w] } } }", "within a block");
  Body("for i in 4 { block b(v: S 4 = i) { let t = x[v] out[v] = t } }", "a let before lowering");
  Body("for i in 4 { local t: f32[4] block b(v: S 4 = i) { out[v] = 1.0 } }", "a local buffer before lowering");
  Body("out[ramp(0, 1, 4)] = x[ramp(0, 1, 4)]", "");
  Body("block b() { out[ramp(0, 1, 4)] = x[ramp(0, 1, 4)] }", "vector before vectorization");
  Body("let t = 2 { out[t] = 1.0 }", "");
}

TEST(Verify, AlignedStrides) {
  auto alloc = [](const std::string& buffer, const std::string& error) {
    Checked("func f() { alloc b: " + buffer + " }", error);
  };
  alloc("f32[4, 4, 4] align [0, 8, 1] align [1, 8, 7]", "");
  alloc("f32[4, 4] shared align [0, 8, 1]", "");
  alloc("f32[4, 4] align [1, 8, 1]", "dimension 1 of b cannot be aligned: only dimensions before the last can");
  alloc("f32[4, 4] align [9223372036854775807, 8, 1]", "dimension 9223372036854775807 of b cannot be aligned");
  alloc("f32[4] align [0, 8, 1]", "dimension 0 of b cannot be aligned");
  alloc("f32[4, 4, 4] align [1, 8, 1] align [0, 8, 7]", "in order, each once");
  alloc("f32[4, 4, 4] align [0, 8, 1] align [0, 8, 1]", "in order, each once");
  alloc("f32[4, 4] strides [5, 1] align [0, 8, 1]", "buffer b has strides of its own, which cannot be aligned");
  alloc("f32[4, 4] register align [0, 8, 1]", "buffer b lies in registers");
  // The text of a program cannot express the invalid ones of these alignments.
  Buffer rows = Buffer::Make("b", DType::Float(32), {Expr(4), Expr(4)});
  auto with = [&](DimAlign align) { return Verify(PrimFunc{"f", {}, {WithDimAlign(rows, {align})}, {}, MakeSeq({})}); };
  EXPECT_TRUE(with({0, 8, 7}).ok());
  EXPECT_FALSE(with({0, 8, 8}).ok());
  EXPECT_FALSE(with({0, 0, 0}).ok());
  EXPECT_FALSE(with({-1, 8, 0}).ok());
}

TEST(Verify, Accesses) {
  Checked("func f(x: f32[4, 4] input, out: f32[4, 4] output) { for i in 16 { out[i] = x[i] } }", "");
  Checked("func f(x: f32[4, 4] input, out: f32[4, 4] output) { block b() { out[3] = x[3, 3] } }",
          "1 indices for buffer out of 2 dimensions");
  Body("x[0] = 1.0", "a store to the input x");
  Body("out[0] = prefetch(x[0])", "a prefetch has no value");
  Body("evaluate prefetch(x[0])", "");
  Body("out[0] = prefetch_write(out[0])", "a prefetch has no value");
  Body("evaluate prefetch_write(out[0])", "");
  Body("out[0] = prefetch_far(out[0])", "a prefetch has no value");
  Body("evaluate prefetch_far(out[0])", "");
  Body("evaluate x[0]", "only a prefetch");
  Body("evaluate exp(x[0])", "only a prefetch");
}

TEST(Verify, ReductionIteratorsTakeTheirValuesOnce) {
  const std::string update = " { init { out[v] = 0.0 } out[v] = out[v] + x[v] } }";
  auto one = [&](const std::string& loop, const std::string& iters) {
    return "for i in 4 { for k in " + loop + " { block b(v: S 4 = i, " + iters + ")" + update + " }";
  };
  auto two = [&](const std::string& iters) {
    return "for i in 4 { for j in 3 { for k in 4 { block b(v: S 4 = i, " + iters + ")" + update + " } }";
  };
  const std::string twice = "reduction iterators take the same values twice: r = ";
  Body(one("4", "r: R 4 = k"), "");
  Body(one("4", "r: R 2 = k // 2"), twice + "k // 2, in block b");
  Body(one("4", "r: R 2 = k % 2"), twice);
  Body(one("4", "r: R 2 = k // 2, s: R 2 = k % 2"), "");
  Body(one("4", "r: R 2 = k // 2, s: R 3 = k % 3"), "");
  Body(one("8", "r: R 3 = k // 3, s: R 2 = k % 2"), twice + "k // 3, s = k % 2");
  Body(one("8", "r: R 4 = k % 4) where (k < 4"), "");  // for k < 4, each value occurs once
  Body(one("8", "r: R 4 = k % 4) where (v < 4"), twice);
  Body(one("4", "r: R 4 = 3 - k"), "not 0 at first");
  Body(one("4", "r: R 5 = k + 1"), "not 0 at first");
  Body("for i in 4 { for k in 4 { block b(v: S 4 = i, r: R 4 = 3 - k) { out[v] = out[v] + x[v] } } }", "");
  Body("for i in 4 { for k in 4 { block b(v: S 4 = i, r: R 4 = k // 2) { out[v] = out[v] + x[v] } } }", twice);
  Body("for i in 4 { block b(v: S 4 = i, r: R 2 = i // 2) { out[v] = out[v] + x[v] } }",
       "");  // v tells the iterations apart
  Body(two("r: R 12 = j * 4 + k"), "");
  Body(two("r: R 12 = k * 3 + j"), "");
  Body(two("r: R 12 = j * 3 + k"), twice);
  Body(two("r: R 20 = j * 5 + k"), "");
  Body(two("r: R 6 = j + k"), twice);
  Body(two("r: R 3 = j, s: R 7 = j + k"), "");
  Body(two("r: R 3 = j"), "");  // the loop k repeats the whole block
  Checked(
      "func f(x: f32[n] input, out: f32[1] output) { for k in n { block b(v: S 1 = 0, r: R n = k) "
      "{ init { out[v] = 0.0 } out[v] = out[v] + x[r] } } }",
      "");
  Checked(
      "func f(x: f32[n] input, out: f32[1] output) { for k in n { block b(v: S 1 = 0, r: R n = k // 2) "
      "{ init { out[v] = 0.0 } out[v] = out[v] + x[r] } } }",
      "cannot check that the reduction iterators take no values twice: r = k // 2");
  // The cost of the check is bounded for any text.
  std::string long_sum = "k // 1";
  for (int i = 0; i < 20; ++i) long_sum += " + k // 2097152";
  for (auto [binding, problem] :
       {std::pair{std::string("k // 1"), ""}, {long_sum, "cannot check that the reduction iterators"}}) {
    Checked(
        "func f(x: f32[1048576] input, out: f32[1] output) { for k in 1048576 { block b(v: S 1 = 0, r: R 1048576 = " +
            binding + ") { init { out[v] = 0.0 } out[v] = out[v] + x[r] } } }",
        problem);
  }
}

// Splits whose parts cover more than the loop that is split give digits that overlap, and conditions that say which
// iterations take place. Trying all iterations would cost too much here.
TEST(Verify, ReductionsOverSplitsThatCoverMore) {
  auto split = [](const std::string& binding, const std::string& predicate) {
    const std::string loops =
        "for i in 4 { for a in 64 { for b in 64 { for c in 64 { for d in 64 { block b(v: S 4 = i, r: R 5000000 = ";
    return loops + binding + ")" + (predicate.empty() ? "" : " where (" + predicate + ")") +
           " { init { out[v] = 0.0 } out[v] = out[v] + x[0] } } } } } }";
  };
  const std::string unknown = "cannot check that the reduction iterators take no values twice";
  const std::string binding = "a * 307200 + b * 4800 + c * 75 + d";
  Body(split(binding, "c * 75 + d < 4800"), "");  // below 75, d is a digit
  Body(split("a * 300000 + b * 4000 + c * 64 + d", "c * 64 + d < 4000"), "");
  Body(split("a * 300000 + b * 4000 + c * 64 + d", "c * 64 + d < 4001"), unknown);
  Body(split("a * 300000 + b * 4000 + c * 64 + d", "c * 64 + d <= 4000"), unknown);
  Body(split("a * 300000 + b * 4000 + c * 64 + d", "c * 63 + d < 4000"), unknown);
  Body(split("a * 300000 + b * 4000 + c * 64 + d", "c * 64 - d < 4000"), unknown);
  Body(split("a * 300000 + b * 4000 + c * 64 + d", ""), unknown);
  Body(split("a * 64000 + b * 1000 + c * 10 + d", "c * 10 + d < 1000 && d < 10"), "");  // c < 100, d < 10
  Body(split("a * 64000 + b * 1000 + c * 10 + d", "d < 11"), unknown);
  // Splits nest: (b, c, d) make 2,000 values, (a, b, c, d) make 100,000.
  const std::string nested = "a * 2000 + b * 100 + c * 10 + d";
  Body(split(nested, nested + " < 100000 && b * 100 + c * 10 + d < 2000 && c * 10 + d < 100 && d < 10"), "");
  Body(split(nested, "b * 100 + c * 10 + d < 2000 && d < 10 && c * 10 + d < 100"), "");
  Body(split(nested, "b * 100 + c * 10 + d < 2001 && d < 10 && c * 10 + d < 101"), "the same values twice");
}

TEST(Verify, TreesAsNoTextCanMakeThem) {
  Buffer x = Buffer::Make("x", DType::Float(32), {Expr(4)}), wide = Buffer::Make("x", DType::Float(32), {Expr(8)});
  auto with = [&](Stmt body) { return Verify(PrimFunc{"f", {{x, ParamRole::kOutput}}, {}, {}, body}).ok(); };
  auto store = [](const Buffer& b, Expr value) { return MakeStmt(Store{b, {Expr(0)}, value}); };
  Expr one = FloatConst(1);
  EXPECT_TRUE(with(store(x, one)));
  EXPECT_FALSE(with(store(wide, one)));
  EXPECT_FALSE(with(store(Buffer::Make("y", DType::Float(32), {Expr(4)}), one)));
  EXPECT_FALSE(with(store(x, Expr(1))));
  EXPECT_FALSE(with(store(x, Expr())));
  EXPECT_FALSE(with(Stmt()));
  EXPECT_FALSE(with(MakeStmt(Seq{{store(x, one)}})));
  EXPECT_TRUE(with(MakeStmt(Seq{{store(x, one), store(x, one)}})));
  EXPECT_FALSE(with(MakeStmt(Seq{{store(x, one), MakeStmt(Seq{{}})}})));
  EXPECT_FALSE(with(store(x, MakeExpr(DType::Float(32), Binary{BinaryOp::kFloorDiv, one, one}))));
  EXPECT_FALSE(with(store(x, MakeExpr(DType::Float(32), FloatImm{0.1}))));
  EXPECT_TRUE(with(store(x, FloatConst(0.1))));
  EXPECT_FALSE(with(store(x, VarOf("free", DType::Float(32)))));
}

}  // namespace
}  // namespace autotune
