#include "ir/interp.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "ir/float_math.h"
#include "ir/text.h"
#include "support/rng.h"
#include "tests/ir/parse.h"

namespace autotune {
namespace {

using test::Parse;

// Evaluates an expression of the variables a, b and c, which have the given dtype and values.
double Eval(const std::string& e, DType dtype, std::vector<double> abc = {0, 0, 0}, DType result = {}) {
  if (result == DType{}) result = dtype;
  std::string t = dtype.Text();
  abc.resize(3);
  PrimFunc f = Parse("func f(x: " + t + "[3] input, out: " + result.Text() +
                     "[1] output) { let a = x[0] let b = x[1] let c = x[2] out[0] = " + e + " }");
  std::vector<InterpArray> args = {{dtype, {3}, abc}, {result, {1}, {}}};
  Status status = Interpret(f, args);
  EXPECT_TRUE(status.ok()) << status.error().Text();
  return status.ok() ? args[1].data[0] : std::nan("");
}

TEST(Interp, FloatsRoundOncePerOperation) {
  const DType f32 = DType::Float(32), f64 = DType::Float(64), f16 = DType::Float(16), bf16 = DType::BFloat16();
  Rng rng(3);
  for (int i = 0; i < 300; ++i) {
    auto random = [&] { return std::bit_cast<float>(static_cast<uint32_t>(rng.Next() & 0xbfffffff)); };
    float a = random(), b = random(), c = random();
    auto same = [&](double got, float want) {
      EXPECT_TRUE((std::isnan(got) && std::isnan(want)) || got == want)
          << a << " " << b << " " << c << ": " << got << " " << want;
    };
    same(Eval("a + b", f32, {a, b, c}), a + b);
    same(Eval("a * b", f32, {a, b, c}), a * b);
    same(Eval("a / b", f32, {a, b, c}), a / b);
    same(Eval("a * b + c", f32, {a, b, c}), a * b + c);
    same(Eval("fma(a, b, c)", f32, {a, b, c}), std::fma(a, b, c));
    same(Eval("sqrt(abs(a))", f32, {a, b, c}), std::sqrt(std::abs(a)));
  }
  // The first exact result lies just above the midpoint of two floats, and rounding to double first would lose the
  // difference. The second one is such a midpoint.
  double tie = 1 + 0x1p-23, one = 1 + 0x1p-12;
  EXPECT_EQ(Eval("fma(a, b, c)", f32, {one, one, 0x1p-80}), std::fmaf(one, one, 0x1p-80f));
  EXPECT_EQ(Eval("fma(a, b, c)", f32, {0x1p-24, 1, tie}), std::fmaf(0x1p-24f, 1, static_cast<float>(tie)));
  // ldexp rounds its result once, also to a denormal number. It rounds a fractional exponent down.
  EXPECT_EQ(Eval("ldexp(a, b)", f32, {1 + 0x1p-23, -148.5}), 0x1p-149);
  EXPECT_EQ(Eval("ldexp(a, b)", f32, {-3, -151}), -0x1p-149);
  EXPECT_EQ(Eval("ldexp(a, b)", f32, {3, 127}), INFINITY);
  EXPECT_EQ(Eval("ldexp(a, b)", f64, {3, -1074}), std::ldexp(3, -1074));
  EXPECT_EQ(Eval("a + b", f64, {1, 0x1p-52}), 1 + 0x1p-52);
  EXPECT_EQ(Eval("a + b", f16, {2048, 1}), 2048);
  EXPECT_EQ(Eval("a + b", f16, {2048, 3}), 2052);
  EXPECT_EQ(Eval("a * b", f16, {300, 300}), INFINITY);
  EXPECT_EQ(Eval("a + b", bf16, {256, 1}), 256);
  EXPECT_EQ(Eval("a + b", bf16, {256, 3}), 260);
}

TEST(Interp, NaNAndZeros) {
  const DType f32 = DType::Float(32);
  double nan = std::nan("");
  EXPECT_EQ(Eval("max(a, b)", f32, {nan, 1}), 1);
  EXPECT_TRUE(std::isnan(Eval("max(a, b)", f32, {1, nan})));
  EXPECT_EQ(Eval("min(a, b)", f32, {nan, 1}), 1);
  EXPECT_TRUE(std::signbit(Eval("-a", f32, {0.0})));
  EXPECT_FALSE(std::signbit(Eval("a + 0.0", f32, {-0.0})));
  EXPECT_EQ(Eval("isnan(a)", f32, {nan}, DType::Bool()), 1);
  EXPECT_EQ(Eval("isnan(a)", f32, {1}, DType::Bool()), 0);
  EXPECT_EQ(Eval("round(a)", f32, {2.5}), 2);
  EXPECT_EQ(Eval("round(a)", f32, {3.5}), 4);
  EXPECT_EQ(Eval("select(a < b, a, b)", f32, {nan, 2}), 2);
}

TEST(Interp, IntegersWrapAndDivideDown) {
  const DType i8 = DType::Int(8), u8 = DType::UInt(8), i32 = DType::Int(32);
  EXPECT_EQ(Eval("a + b", i8, {127, 1}), -128);
  EXPECT_EQ(Eval("a - b", u8, {0, 1}), 255);
  EXPECT_EQ(Eval("a // b", i8, {-7, 2}), -4);
  EXPECT_EQ(Eval("a % b", i8, {-7, 2}), 1);
  EXPECT_EQ(Eval("a >> b", i8, {-128, 3}), -16);
  EXPECT_EQ(Eval("a >> b", u8, {128, 3}), 16);
  EXPECT_EQ(Eval("i32(a)", DType::Float(32), {-1.75}, i32), -1);
  EXPECT_EQ(Eval("i8(a)", i32, {300}, i8), 44);
  EXPECT_EQ(Eval("reinterpret<i32>(a)", DType::Float(32), {1}, i32), 0x3f800000);
  EXPECT_EQ(Eval("reinterpret<f16>(a)", DType::UInt(16), {0x3c01}, DType::Float(16)), 1 + 0x1p-10);
}

TEST(FloatMath, BitsRoundTripInEveryNarrowFormat) {
  for (DType dtype : {DType::Float(16), DType::BFloat16()}) {
    for (uint64_t bits = 0; bits < 65536; ++bits) {
      double v = FloatFromBits(bits, dtype);
      if (std::isnan(v)) continue;
      ASSERT_EQ(FloatToBits(v, dtype), bits);
      ASSERT_EQ(RoundFloat(v, dtype), v);
    }
  }
  EXPECT_EQ(RoundFloat(65519.9, DType::Float(16)), 65504);
  EXPECT_EQ(RoundFloat(65520, DType::Float(16)), INFINITY);
  EXPECT_EQ(RoundFloat(0x1p-25, DType::Float(16)), 0);
  EXPECT_EQ(RoundFloat(0x1.8p-25, DType::Float(16)), 0x1p-24);
}

// Checks that running the program gives this error; an empty text means that the program runs.
void Runs(const std::string& body, const std::string& error, InterpOptions options = {}) {
  PrimFunc f = Parse("func f(x: f32[4] input, out: f32[4] output) {\n alloc t: f32[4]\n" + body + "}");
  std::vector<InterpArray> args = {{DType::Float(32), {4}, {1, 2, 3, 4}}, {DType::Float(32), {4}, {}}};
  Status status = Interpret(f, args, options);
  if (error.empty()) {
    EXPECT_TRUE(status.ok()) << status.error().Text();
  } else {
    ASSERT_FALSE(status.ok()) << body;
    EXPECT_NE(status.error().message.find(error), std::string::npos) << status.error().message;
  }
}

TEST(Interp, StoresMayBeBounded) {
  PrimFunc f = Parse("func f(out: f32[3] output) { for i in 3 { out[i] = f32(1) } }");
  for (int64_t stores : {3, 2}) {
    std::vector<InterpArray> args = {{DType::Float(32), {3}, {}}};
    int64_t left = stores;
    Status status = Interpret(f, args, {.stores_left = &left});
    EXPECT_EQ(status.ok(), stores == 3);
    EXPECT_EQ(left, stores == 3 ? 0 : -1);
  }
}

TEST(Interp, BoundsAndUninitialisedMemory) {
  Runs("for i in 4 { out[i] = x[i] }", "");
  Runs("for i in 5 { out[i] = 1.0 }", "write of out out of bounds: index 0 is 4 of 4");
  Runs("for i in 4 { block b(v: S 4 = i) { out[v] = x[v + 1] } }",
       "read of x out of bounds: index 0 is 4 of 4, in block b (i = 3, v = 3)");
  Runs("for i in 4 { out[i] = select(i < 3, x[i + 1], 0.0) }", "");
  Runs("for i in 4 { out[i] = t[i] }", "never written");
  Runs("for i in 4 { t[i] = x[i] out[i] = t[i] }", "");
  Runs("for i in 4 { block b(v: S 3 = i) { out[v] = 1.0 } }", "iterator v = 3 leaves its extent 3");
  Runs("for i in 4 { block b(v: S 3 = i) where i < 3 { out[v] = 1.0 } }", "");
  Runs("for i in 4 { out[4 // i] = 1.0 }", "undefined: 4 // 0");
  Runs("for i in 4 { evaluate prefetch(x[i + 100]) out[i] = 0.0 }", "");
  Runs("for i in 4 { evaluate prefetch_write(out[i + 100]) out[i] = 0.0 }", "");
  Runs("for i in 4 { evaluate prefetch_far(out[i + 100]) out[i] = 0.0 }", "");
}

TEST(Interp, RacesBetweenParallelIterations) {
  for (uint64_t seed : {0, 1, 2, 3}) {
    InterpOptions options{.order_seed = seed};
    Runs("for i in 4 parallel { out[i] = x[i] }", "", options);
    Runs("for i in 4 parallel { out[0] = x[i] }", "race", options);
    Runs("for i in 4 parallel { out[i // 2] = 1.0 }", "race", options);
    Runs("for i in 4 { out[i // 2] = 1.0 }", "", options);
    Runs("t[0] = 1.0 for i in 4 parallel { out[i] = t[0] }", "", options);
    Runs("for i in 4 { t[i] = 1.0 } for i2 in 4 parallel { t[i2] = t[3 - i2] }", "race", options);
    // Every iteration reads t[0], then one iteration writes it: a race. A later loop may touch any element.
    Runs("t[0] = 1.0 for i in 4 parallel { out[i] = t[0] if i == 2 { t[0] = 2.0 } }", "race", options);
    Runs("for i in 4 parallel { out[i] = x[i] } for j in 4 parallel { out[3 - j] = x[j] }", "", options);
    Runs("for i in 2 parallel { for j in 2 parallel { out[i * 2 + j] = 1.0 } }", "", options);
    Runs("for i in 2 parallel { for j in 2 parallel { out[i] = 1.0 } }", "race", options);
    Runs("for i in 2 parallel { for j in 2 { out[i] = 1.0 } }", "", options);
    Runs("for k in 2 { for i in 2 parallel { out[(i + k) % 2] = 1.0 } }", "", options);
    Runs("for i in 4 parallel { local s: f32[1] s[0] = x[i] out[i] = s[0] }", "", options);
  }
  Runs("for i in 4 parallel { out[0] = x[i] }", "", {.detect_races = false});
}

TEST(Interp, ReductionBlocksInitialiseOnce) {
  PrimFunc f = Parse(R"(func f(x: f32[2, 3] input, out: f32[2] output) {
    for r in 3 { for i in 2 { block b(vi: S 2 = i, vr: R 3 = r) { init { out[vi] = 10.0 } out[vi] = out[vi] + x[vi, vr] } } }
  })");
  std::vector<InterpArray> args = {{DType::Float(32), {2, 3}, {1, 2, 3, 4, 5, 6}}, {DType::Float(32), {2}, {}}};
  ASSERT_TRUE(Interpret(f, args).ok());
  EXPECT_EQ(args[1].data, (std::vector<double>{16, 25}));
}

TEST(Interp, VectorsStridesAndSymbols) {
  PrimFunc f = Parse(R"(func f(x: f32[n, 4] input, out: f32[n, 4] strides [6, 1] output) {
    for i in n {
      out[ramp(i * 6, 1, 4)] = select(x[ramp(i * 4, 1, 4)] > broadcast(2.0, 4), x[ramp(i * 4 + 3, -1, 4)], broadcast(0.0, 4))
    }
  })");
  std::vector<InterpArray> args = {{DType::Float(32), {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}},
                                   {DType::Float(32), {2, 4}, {}}};
  Status status = Interpret(f, args);
  ASSERT_TRUE(status.ok()) << status.error().Text();
  EXPECT_EQ(args[1].data, (std::vector<double>{0, 0, 2, 1, 8, 7, 6, 5}));
}

TEST(Interp, AlignedStrides) {
  // The strides of [2, 3, 4] are 33, 9 and 1. 9 is one more than 8, a multiple of 8. 33 is the smallest number from 27
  // on that is one more than a multiple of 16.
  auto f = [](const std::string& stride) {
    return Parse(
        "func f(x: f32[2, 3, 4] input, out: f32[2, 3, 4] align [0, 16, 1] align [1, 8, 1] output) {"
        "for i in 2 { for j in 3 { for k in 4 { out[i * " +
        stride + " + j * 9 + k] = x[i, j, k] } } } }");
  };
  InterpArray x{DType::Float(32), {2, 3, 4}, {}}, out{DType::Float(32), {2, 3, 4}, {}};
  for (int i = 0; i < 24; ++i) x.data.push_back(i);
  std::vector<InterpArray> args = {x, out};
  Status ran = Interpret(f("33"), args);
  ASSERT_TRUE(ran.ok()) << ran.error().Text();
  EXPECT_EQ(args[1].data, x.data);
  args = {x, out};
  ASSERT_TRUE(Interpret(f("32"), args).ok());
  EXPECT_NE(args[1].data, x.data);
  args = {x, out};
  EXPECT_FALSE(Interpret(f("60"), args).ok());
  EXPECT_EQ(StridesOf({2, 3, 4}, {{0, 16, 1}, {1, 8, 1}}), (std::vector<int64_t>{33, 9, 1}));
  EXPECT_EQ(StridesOf({2, 3, 4}, {{0, 16, 1}}), (std::vector<int64_t>{17, 4, 1}));
  EXPECT_EQ(StridesOf({2, 16}, {{0, 16, 0}}), (std::vector<int64_t>{16, 1}));
  EXPECT_EQ(StridesOf({2, 17}, {{0, 16, 0}}), (std::vector<int64_t>{32, 1}));
  EXPECT_EQ(StridesOf({2, 1}, {{0, 16, 5}}), (std::vector<int64_t>{5, 1}));
  EXPECT_EQ(StridesOf({}, {}), std::vector<int64_t>());
}

TEST(Interp, ArgumentsAreChecked) {
  PrimFunc f = Parse("func f(x: f32[4] input, out: f32[4] output) { for i in 4 { out[i] = x[i] } }");
  InterpArray x{DType::Float(32), {4}, {1, 2, 3, 4}}, out{DType::Float(32), {4}, {}};
  auto run = [&](std::vector<InterpArray> args) { return Interpret(f, args).ok(); };
  EXPECT_TRUE(run({x, out}));
  EXPECT_FALSE(run({x}));
  EXPECT_FALSE(run({{DType::Float(64), {4}, {1, 2, 3, 4}}, out}));
  EXPECT_FALSE(run({{DType::Float(32), {5}, {1, 2, 3, 4, 5}}, out}));
  EXPECT_FALSE(run({{DType::Float(32), {4}, {1, 2, 3}}, out}));
}

}  // namespace
}  // namespace autotune
