#include "ir/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/float_math.h"
#include "ir/verify.h"
#include "ir/visit.h"
#include "support/rng.h"
#include "tests/read.h"

namespace autotune {
namespace {

constexpr std::string_view kConv = R"(func conv(
  data: f32[1, 10, 10, 16] input,
  weight: f32[3, 3, 16, 32] constant,
  out: f32[1, 8, 8, 32] output
) @{layout = 1} {
  alloc acc: f32[1, 8, 8, 32] register align 32
  alloc rows: f32[4, 8, 32] shared align 128 align [0, 512, 16] align [1, 32, 1]
  for n in 1 {
    for oc_0 in 4 parallel @{unroll = 16} {
      for oc_1 in 8 vectorized {
        block conv(vn: S 1 = n, voc: S 32 = oc_0 * 8 + oc_1, rc: R 16 = oc_1 // 2) where oc_0 * 8 + oc_1 < 30 @{"auto x" = -1} {
          init {
            acc[vn, 0, 0, voc] = 0.0
          }
          acc[vn, 0, 0, voc] = acc[vn, 0, 0, voc] + data[vn, 0, 0, rc] * weight[0, 0, rc, voc]
        }
      }
    }
  }
  if n == 0 {
    out[0, 0, 0, 0] = max(acc[0, 0, 0, 0], -1.5)
  } else if n < 2 && !(n >= 3) {
    out[0, 0, 0, 0] = select(n > 1, exp(acc[0, 0, 0, 0]), nan)
  } else {
    out[0, 0, 0, 0] = -(1.0) / f32(n % 3)
  }
}
)";

constexpr std::string_view kLowered = R"(func flat(
  a: f32[64] input,
  b: bf16[8, 8] strides [16, 1] output
) {
  for i in 8 parallel {
    local tmp: f32[8] register
    let base = i * 8
    {
      let scale = a[base] * 2.0
      tmp[ramp(0, 1, 8)] = a[ramp(base, 1, 8)] * broadcast(scale, 8)
    }
    evaluate prefetch(a[base + 64])
    evaluate prefetch_write(b[base + 64])
    for j in 8i32 {
      b[base + index(j)] = bf16(tmp[index(j)])
      b[0] = reinterpret<bf16>(reinterpret<u16>(1.0bf16) | 1u16)
    }
  }
}
)";

void RoundTrips(std::string_view text) {
  auto f = ParsePrimFunc(text);
  ASSERT_TRUE(f.ok()) << f.error().Text();
  EXPECT_EQ(ToText(*f), text);
  auto again = ParsePrimFunc(ToText(*f));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(FirstMismatch(*f, *again), "");
}

TEST(Text, Goldens) {
  RoundTrips(kConv);
  RoundTrips(kLowered);
  RoundTrips("func empty() {\n}\n");
}

TEST(Text, TheExampleInTheDocumentationIsWellFormed) {
  std::string page = test::ReadAll(AUTOTUNE_SOURCE_DIR "/docs/ir.md");
  size_t start = page.find("```\nfunc ") + 4;
  ASSERT_LT(start, page.size());
  std::string example = page.substr(start, page.find("```", start) - start);
  RoundTrips(example);
  auto f = ParsePrimFunc(example);
  ASSERT_TRUE(f.ok());
  Status status = Verify(*f, Dialect::kSchedulable);
  EXPECT_TRUE(status.ok()) << status.error().Text();
}

TEST(Text, CommentsAndSpaceDoNotMatter) {
  auto a = ParsePrimFunc("func f(a: f32[4] output) { for i in 4 { a[i] = 1.0 } }");
  auto b = ParsePrimFunc("# a comment\nfunc f(a:f32[4]output){for i in 4{a[i]=1.0 # one\n}}\n");
  ASSERT_TRUE(a.ok() && b.ok()) << (b.ok() ? "" : b.error().Text());
  EXPECT_TRUE(Equal(*a, *b));
  auto c = ParsePrimFunc("func f(a: f32[4] output) { for i in 4 { a[i] = 1.5 } }");
  ASSERT_TRUE(c.ok());
  EXPECT_FALSE(Equal(*a, *c));
}

void ExprRoundTrips(const Expr& e) {
  auto parsed = ParseExpr(ToText(e));
  ASSERT_TRUE(parsed.ok()) << ToText(e) << ": " << parsed.error().Text();
  EXPECT_TRUE(Equal(*parsed, e)) << ToText(e) << " came back as " << ToText(*parsed);
}

TEST(Text, ConstantsOfEveryDTypeAreExact) {
  Rng rng(7);
  const DType floats[] = {DType::Float(16), DType::BFloat16(), DType::Float(32), DType::Float(64)};
  for (DType dtype : floats) {
    for (double v : {0.0, -0.0, 1.0, -1.5, 0.1, 1e30, 1e-30, 65504.0, 5e-324, 1e-45, double(INFINITY),
                     double(-INFINITY), std::nan(""), -std::nan(""), 16777217.0, std::numeric_limits<double>::max()}) {
      ExprRoundTrips(FloatConst(v, dtype));
    }
    for (int i = 0; i < 2000; ++i) {
      double v = FloatFromBits(dtype.bits == 64 ? rng.Next() : rng.Next() & ((uint64_t{1} << dtype.bits) - 1), dtype);
      ExprRoundTrips(FloatConst(v, dtype));
    }
  }
  for (DType dtype : {DType::Index(), DType::Int(8), DType::Int(64), DType::Int(32)}) {
    for (int64_t v : {0, 1, -1, 127, -128}) ExprRoundTrips(IntConst(v, dtype));
  }
  ExprRoundTrips(Expr(std::numeric_limits<int64_t>::min()));
  ExprRoundTrips(Expr(std::numeric_limits<int64_t>::max()));
  ExprRoundTrips(IntConst(-1, DType::UInt(64)));
  ExprRoundTrips(IntConst(255, DType::UInt(8)));
  ExprRoundTrips(BoolConst(true));
}

TEST(Text, TreesKeepTheirShape) {
  Expr x = IndexVar("x"), y = IndexVar("odd name\n\"\x01"), z = VarOf("z", DType::Float(32)), w = IndexVar("for");
  for (const Expr& e : {x + (y + w),
                        (x + y) + w,
                        x - (y - w),
                        x * (y + 1),
                        FloorDiv(x, FloorMod(y, w)),
                        -(-x),
                        -x * y,
                        -(x * y),
                        MakeExpr(DType::Index(), Unary{UnaryOp::kNeg, Expr(1)}),
                        x - Expr(-1),
                        Not(And(x < y, Or(x<w, x> w))),
                        And(x < y, And(x<w, x> w)),
                        Eq(x < y, BoolConst(true)),
                        z + -z,
                        Min(x, Max(y, 3)),
                        MakeCast(DType::Int(8), x),
                        MakeRamp(x, 2, 4),
                        MakeBroadcast(z, 16),
                        IndexVar("inf_x"),
                        IndexVar("exp") + 1,
                        MakeBinary(BinaryOp::kShl, x, MakeBinary(BinaryOp::kBitAnd, y, w)),
                        MakeSelect(x < y, z, FloatConst(-2)),
                        MakeCall(Op::kFma, {z, z, z}),
                        MakeCall(Op::kIsNan, {z})}) {
    ExprRoundTrips(e);
  }
}

void Refused(std::string_view text, std::string_view where, std::string_view what) {
  auto f = ParsePrimFunc(text);
  ASSERT_FALSE(f.ok()) << text;
  EXPECT_NE(f.error().message.find(where), std::string::npos) << f.error().message;
  EXPECT_NE(f.error().message.find(what), std::string::npos) << f.error().message;
}

TEST(Text, ErrorsNameTheirPlace) {
  Refused("", "line 1, column 1", "expected 'func'");
  Refused("func f(\n  a: f33[4] output) {}", "line 2, column 6", "expected a dtype");
  Refused("func f(a: f32[4] output) { b[0] = 1.0 }", "column 28", "unknown buffer b");
  Refused("func f(a: f32[4] output) { a[0] = 1 }", "column 35", "a value of index for an element of f32");
  Refused("func f(a: f32[4] output) { a[0] = 1.0 + 1 }", "column 39", "operands of '+' are f32 and index");
  Refused("func f(a: bool[4] output) { a[0] = true + true }", "column 41", "'+' is not for bool");
  Refused("func f(a: f32[4] output) { a[1.0] = 1.0 }", "column 30", "an index is f32");
  Refused("func f(a: f32[4] output) { a[0] = foo(1.0) }", "column 35", "unknown operation 'foo'");
  Refused("func f(a: f32[4] output) { a[0] = exp(1.0, 2.0) }", "column 35", "takes 1 arguments");
  Refused("func f(a: f32[4] output) { a[0] = 1.0", "column 38", "expected '}'");
  Refused("func f(a: f32[4] output, a: f32[4] output) {}", "column 26", "declared twice");
  Refused("func f(a: i8[4] output) { a[0] = 300i8 }", "column 34", "not a value of i8");
  Refused("func f(a: f32[4] output) { a[0] = 1.0 } x", "column 41", "expected the end of the text");
  Refused("func f(for: f32[4] output) { }", "column 8", "reserved word");
  Refused("func f(a: f32[4] output) { a[0] = 1.0f32x4 }", "column 35", "not a number");
  Refused("func f(a: f32[4, 4] align [-1, 8, 0] output) { }", "column 29", "a dimension between 0 and");
  Refused("func f(a: f32[4, 4] align [0, 0, 0] output) { }", "column 31", "a factor between 1 and 65536");
  Refused("func f(a: f32[4, 4] align [0, 65537, 0] output) { }", "column 31", "a factor between 1 and 65536");
  Refused("func f(a: f32[4, 4] align [0, 8, 8] output) { }", "column 34", "an offset below the factor between 0 and 7");
  Refused("func f(a: f32[4, 4] align [0, 8] output) { }", "column 32", "expected ','");
}

TEST(Text, DepthIsLimited) {
  auto nested = [](size_t n) {
    return "func f(a: index[4] output) { a[0] = " + std::string(n, '(') + "1" + std::string(n, ')') + " }";
  };
  EXPECT_TRUE(ParsePrimFunc(nested(100)).ok());
  Refused(nested(100000), "line 1", "nested too deeply");
  auto chain = [](size_t n) {
    std::string sum = "func f(a: index[4] output) { a[0] = 1";
    for (size_t i = 0; i < n; ++i) sum += " + 1";
    return sum + " }";
  };
  EXPECT_TRUE(ParsePrimFunc(chain(500)).ok());
  Refused(chain(100000), "line 1", "more than 1000 levels");
  std::string loops = "func f() {";
  for (int i = 0; i < 100000; ++i) loops += "for i in 2 {";
  Refused(loops, "line 1", "nested too deeply");
  Refused("func f() {" + std::string(100000, '{'), "line 1", "nested too deeply");
  std::string lets = "func f() {";
  for (int i = 0; i < 100000; ++i) lets += "let i = 2 ";
  Refused(lets + "}", "line 1", "nested too deeply");
  std::string elses = "func f() { if true {}";
  for (int i = 0; i < 100000; ++i) elses += "else if true {}";
  Refused(elses + "}", "line 1", "nested too deeply");
  Refused("func f(a: index[4] output) { a[0] = " + std::string(100000, '-') + "x }", "line 1", "nested too deeply");
}

TEST(Text, MutatedTextNeverCrashes) {
  Rng rng(11);
  const std::string_view pieces[] = {
      "(",        ")",  "{",  "}",  "[",     "]",    "-",  "1",     "index",        "f32", "for", "block",
      "let x = ", "\"", "\\", "0x", "1e999", "nan_", "@{", "ramp(", "reinterpret<", ",",   "=",   "\xff"};
  int parsed = 0;
  for (int i = 0; i < 6000; ++i) {
    std::string text(i % 2 ? kConv : kLowered);
    int edits = 1 + rng.Below(3);
    for (int k = 0; k < edits; ++k) {
      size_t at = rng.Below(text.size());
      switch (rng.Below(4)) {
        case 0:
          text.erase(at, 1 + rng.Below(10));
          break;
        case 1:
          text.insert(at, pieces[rng.Below(std::size(pieces))]);
          break;
        case 2:
          text[at] = static_cast<char>(rng.Below(256));
          break;
        default: {
          std::string piece = text.substr(rng.Below(text.size()), rng.Below(30));
          text.insert(at, piece);
        }
      }
      if (text.empty()) text = " ";
    }
    auto f = ParsePrimFunc(text);
    if (!f.ok()) continue;
    ++parsed;
    auto again = ParsePrimFunc(ToText(*f));
    ASSERT_TRUE(again.ok()) << text << "\n" << ToText(*f) << again.error().Text();
    EXPECT_EQ(FirstMismatch(*f, *again), "") << text;
  }
  EXPECT_GT(parsed, 100);
  EXPECT_LT(parsed, 5000);
}

}  // namespace
}  // namespace autotune
