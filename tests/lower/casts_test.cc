// Conversions of quantized floats: min(max(round(x) + z, low), high), as QuantizeLinear makes it, loses its rounding
// and computes the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>

#include "ir/interp.h"
#include "ir/text.h"
#include "ir/visit.h"
#include "lower/lower.h"
#include "support/rng.h"
#include "tests/ir/parse.h"

namespace autotune {
namespace {

const char kCpu[] = "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell";
constexpr int64_t kCount = 512;

// Returns ties and the numbers beside them, numbers around the bounds of small integers, and special ones.
std::vector<double> Numbers(DType type) {
  std::vector<double> xs = {0.0,      -0.0,      INFINITY,     -INFINITY,     NAN,    FLT_MAX, -FLT_MAX,
                            FLT_MIN,  1e-30,     0x1p22,       0x1p23,        0x1p24, -0x1p22, -0x1p23,
                            0x1.8p23, -0x1.8p23, 2147483648.0, -2147483648.0, 3e9,    1e20};
  Rng rng(4);
  while (xs.size() < kCount) {
    const double tie = static_cast<double>(rng.Below(1400)) - 700 + 0.5;
    const auto single = static_cast<float>(tie);
    xs.insert(xs.end(),
              {tie, std::nextafter(single, 1e9f), std::nextafter(single, -1e9f), 600 * (rng.Uniform() - 0.5)});
  }
  xs.resize(kCount);
  for (double& x : xs)
    if (type == DType::Float(32)) x = static_cast<float>(x);
  return xs;
}

// y = `value` of x[v]
PrimFunc Conversion(const std::string& value, const std::string& to, const std::string& from) {
  return test::Parse("func f(x: " + from + "[512] input, y: " + to +
                     "[512] output) { for o in 32 { for i in 16 vectorized { block b(v: S 512 = o * 16 + i) { y[v] = " +
                     to + "(" + value + ") } } } }");
}

// Expects the results of the program before lowering. Returns whether the rounding has gone.
bool LosesRounding(const std::string& value, const std::string& to = "u8", const char* target = kCpu,
                   const std::string& from = "f32") {
  const PrimFunc f = Conversion(value, to, from);
  const auto kernel = Lower(f, Target::Parse(target).value());
  if (!kernel.ok()) return ADD_FAILURE() << kernel.error().Text(), false;
  const std::vector<double> xs = Numbers(f.params[0].buffer->dtype);
  std::vector<InterpArray> want = {{f.params[0].buffer->dtype, {kCount}, xs},
                                   {f.params[1].buffer->dtype, {kCount}, {}}};
  want[1].data.resize(kCount);
  std::vector<InterpArray> got = want;
  EXPECT_TRUE(Interpret(f, want).ok());
  EXPECT_TRUE(Interpret(kernel->run, got).ok());
  for (size_t i = 0; i < xs.size(); ++i) EXPECT_EQ(got[1].data[i], want[1].data[i]) << value << " of " << xs[i];
  bool rounds = false;
  Walk(kernel->run.body, nullptr, [&](const Expr& e) {
    const Call* call = e.As<Call>();
    rounds |= call && call->op == Op::kRound;
    return true;
  });
  return !rounds;
}

TEST(QuantizedCasts, TakeOneSumInsteadOfARounding) {
  for (const char* value : {"min(max(round(x[v]), 0.0), 255.0)",            // no zero point
                            "min(max(round(x[v]) + 0.0, 0.0), 255.0)",      //
                            "min(max(round(x[v]) + 128.0, 0.0), 255.0)",    // an even one
                            "min(max(round(x[v]) + 77.0, 0.0), 255.0)",     // an odd one
                            "min(max(round(x[v]) + 255.0, 0.0), 255.0)",    // the extremes
                            "min(max(round(x[v]) + 3.0, 3.0), 200.0)",      // a Relu's bound
                            "min(max(round(x[v]) + 3.0, 9.0), 9.0)",        // one result
                            "min(max(round(x[v]) + -1000.0, 0.0), 255.0)",  // a zero point that is no byte
                            "min(max(round(x[v] * 0.1), 0.0), 255.0)"})
    EXPECT_TRUE(LosesRounding(value)) << value;
  for (const char* value :
       {"min(max(round(x[v]), -128.0), 127.0)", "min(max(round(x[v]) + -128.0, -128.0), 127.0)",
        "min(max(round(x[v]) + 127.0, -128.0), 127.0)", "min(max(round(x[v]) + -1.0, -127.0), 127.0)"})
    EXPECT_TRUE(LosesRounding(value, "i8")) << value;
  EXPECT_TRUE(LosesRounding("min(max(round(x[v]) + 5.0, -32768.0), 32767.0)", "i16"));
  EXPECT_TRUE(LosesRounding("min(max(round(x[v]) + 40001.0, 0.0), 65535.0)", "u16"));
}

// Returns how many conversions of integers the lowered program has, for a target whose registers hold the 16 lanes.
int64_t ConversionsOf(const std::string& value, const std::string& to) {
  EXPECT_TRUE(LosesRounding(value, to)) << value;
  const Target target = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512").value();
  const auto kernel = Lower(Conversion(value, to, "f32"), target);
  int64_t found = 0;
  Walk(kernel->run.body, nullptr, [&](const Expr& e) {
    const Cast* cast = e.As<Cast>();
    found += cast && e.dtype().lanes > 1 && cast->a.dtype().IsInt();
    return true;
  });
  return found;
}

TEST(QuantizedCasts, GiveWordsDirectly) {
  const std::string byte = "u8(min(max(round(x[v]) + 77.0, 0.0), 255.0))";
  EXPECT_EQ(ConversionsOf("i32(" + byte + ") - i32(77)", "i16"), 1);
  EXPECT_EQ(ConversionsOf("i32(" + byte + ") - i32(200)", "i16"), 1);
  EXPECT_EQ(ConversionsOf("i32(" + byte + ") + i32(900)", "i16"), 1);
  EXPECT_EQ(ConversionsOf("i32(" + byte + ")", "i16"), 1);
  EXPECT_EQ(ConversionsOf("i32(u8(min(max(round(x[v]), 0.0), 255.0))) - i32(128)", "i8"), 1) << "no zero point";
  EXPECT_EQ(ConversionsOf("i32(i8(min(max(round(x[v]) + -5.0, -128.0), 127.0))) - i32(-5)", "i16"), 1);
}

TEST(QuantizedCasts, StayBytesInBetween) {
  const std::string byte = "u8(min(max(round(x[v]) + 77.0, 0.0), 255.0))";
  EXPECT_EQ(ConversionsOf("(i32(" + byte + ") - i32(77)) * i32(3)", "i16"), 3) << "a product";
  EXPECT_EQ(ConversionsOf("i32(" + byte + ") - i32(77)", "i32"), 2) << "more bits than are the number's own";
  EXPECT_EQ(ConversionsOf("i32(" + byte + ") - i32(2000000)", "i16"), 3) << "too large";
}

TEST(QuantizedCasts, OthersKeepTheirRounding) {
  for (const char* value : {"min(max(round(x[v]) + 7.0, 0.0), 256.0)",   // bounds beyond the type
                            "min(max(round(x[v]) + 7.0, -1.0), 255.0)",  //
                            "min(max(round(x[v]) + 7.5, 0.0), 255.0)",   // a zero point that is no whole number
                            "min(max(round(x[v]) + 7.0, 0.25), 255.0)",  // a bound that is none
                            "min(max(round(x[v]) + 2e6, 0.0), 255.0)",   // too large
                            "min(max(round(x[v]) + 7.0, 20.0), 10.0)",   // empty
                            "max(min(round(x[v]) + 7.0, 255.0), 0.0)",   // the other way round
                            "min(round(x[v]) + 7.0, 255.0)"})            // one bound
    EXPECT_FALSE(LosesRounding(value)) << value;
  EXPECT_FALSE(LosesRounding("min(max(round(x[v]), 0.0), 255.0)", "i8")) << "bounds beyond the type";
  EXPECT_FALSE(LosesRounding("min(max(round(x[v]), -128.0), 127.0)", "i32")) << "more bits";
  EXPECT_FALSE(LosesRounding("min(max(round(x[v]), f64(0.0)), f64(255.0))", "u8", kCpu, "f64")) << "f64";
  EXPECT_FALSE(LosesRounding("min(max(round(x[v]), 0.0), 255.0)", "u8", "c")) << "C has no such vectors";
}

}  // namespace
}  // namespace autotune
