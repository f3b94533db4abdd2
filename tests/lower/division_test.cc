// Divisions of f32 by numbers become products that round alike. Each test names the divisions that must stay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>

#include "ir/interp.h"
#include "ir/text.h"
#include "ir/visit.h"
#include "lower/lower.h"
#include "lower/passes.h"
#include "support/rng.h"
#include "tests/ir/parse.h"

namespace autotune {
namespace {

const char kFma[] = "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell";
const char kNoFma[] = "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64";
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kExact = 0x1p-100;  // least magnitude of the quotients that must round alike

Target TargetOf(const char* text) { return Target::Parse(text).value(); }

// y = x / d for 64 rows of 16 lanes
PrimFunc Quotients(double d, DType type = DType::Float(32)) {
  const std::string array = type.Text() + "[1024]";
  const PrimFunc copy = test::Parse("func f(x: " + array + " input, y: " + array +
                                    " output) { for o in 64 { for i in 16 vectorized {"
                                    " block b(v: S 1024 = o * 16 + i) { y[v] = x[v] } } } }");
  return WithExprs(copy, [&](const Expr& e) { return e.As<Load>() ? e / FloatConst(d, type) : e; });
}

bool Divides(const PrimFunc& f) {
  bool divides = false;
  Walk(f.body, nullptr, [&](const Expr& e) {
    const Binary* binary = e.As<Binary>();
    divides |= binary && binary->op == BinaryOp::kDiv && e.dtype().IsFloat();
    return true;
  });
  return divides;
}

bool Same(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

// Returns 1,024 numbers: special ones, then numbers of all exponents whose quotients by d lie at midpoints or anywhere.
std::vector<double> Dividends(float d, Rng& rng) {
  std::vector<double> xs = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1, -1, FLT_MAX, -FLT_MAX, FLT_MIN, d, -d};
  for (int i = 0; i <= 32; ++i) xs.push_back(i - 16.5);
  while (xs.size() < 1024) {
    const auto quotient = static_cast<float>(std::ldexp(1 + rng.Uniform(), static_cast<int>(rng.Below(250)) - 125));
    const double next = std::nextafter(quotient, kInfinity), sign = rng.Below(2) ? 1 : -1;
    const double x = sign * static_cast<float>((quotient + next) / 2 * static_cast<double>(d));
    xs.push_back(rng.Below(4) ? x : sign * quotient);
  }
  return xs;
}

// Lowers the division, interprets it and compares it with division. Returns whether it became a product.
bool BecomesProduct(float d, Rng& rng, const char* target = kFma) {
  const auto kernel = Lower(Quotients(d), TargetOf(target));
  if (!kernel.ok()) return ADD_FAILURE() << kernel.error().Text(), false;
  const std::vector<double> xs = Dividends(d, rng);
  std::vector<InterpArray> args = {{DType::Float(32), {1024}, xs}, {DType::Float(32), {1024}, xs}};
  EXPECT_TRUE(Interpret(kernel->run, args).ok());
  for (size_t i = 0; i < xs.size(); ++i) {
    const auto x = static_cast<float>(xs[i]), got = static_cast<float>(args[1].data[i]), want = x / d;
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << x << " / " << d;
    } else if (want == 0 || std::abs(static_cast<double>(x) / d) >= kExact) {
      EXPECT_TRUE(Same(got, want)) << x << " / " << d << " is " << want << ", not " << got;
    } else {
      EXPECT_TRUE(Same(got, want) || Same(got, std::nextafter(want, kInfinity)) ||
                  Same(got, std::nextafter(want, -kInfinity)))
          << x << " / " << d << " is " << want << ", not " << got;
    }
  }
  return !Divides(kernel->run);
}

TEST(Division, ProductsRoundAsQuotientsDo) {
  Rng rng(5);
  for (const float d :
       {3.0f, 0.1f, 1e-3f, 255.0f, -7.0f, 6.0f, 2.0f, -0.25f, 1024.0f, 0x1p-60f, 0x1p64f, 0x1.8p-64f, 0x1.8p63f, 1.0f})
    EXPECT_TRUE(BecomesProduct(d, rng)) << d;
  for (const float mantissa :
       {0x1.000002p0f, 0x1.000004p0f, 0x1.000006p0f, 0x1.fffffep0f, 0x1.fffffcp0f, 0x1.fffffap0f})
    for (const float power : {1.0f, -0x1p-20f, 0x1p40f}) BecomesProduct(mantissa * power, rng);
  int products = 0;
  for (int i = 0; i < 300; ++i) {
    const double d = std::ldexp(1 + rng.Uniform(), static_cast<int>(rng.Below(120)) - 60);
    products += BecomesProduct(static_cast<float>(rng.Below(2) ? d : -d), rng);
  }
  EXPECT_GE(products, 270) << "most divisors have a product";
}

TEST(Division, OtherDivisionsStay) {
  Rng rng(6);
  EXPECT_FALSE(BecomesProduct(3.0f, rng, kNoFma)) << "a sum of two roundings";
  EXPECT_TRUE(BecomesProduct(4.0f, rng, kNoFma)) << "a power of two needs no sum";
  for (const float d : {0x1.8p64f, 0x1.8p-65f, 0x1p65f, 0.0f, -0.0f, kInfinity}) {
    EXPECT_TRUE(Divides(Lower(Quotients(d), TargetOf(kFma))->run)) << d;
  }
  EXPECT_TRUE(Divides(Lower(Quotients(NAN), TargetOf(kFma))->run));
  EXPECT_TRUE(Divides(Lower(Quotients(3, DType::Float(64)), TargetOf(kFma))->run)) << "f64";
  EXPECT_TRUE(Divides(Lower(test::Parse("func f(x: f32[8] input, d: f32[1] input, y: f32[8] output) {"
                                        " for i in 8 { block b(v: S 8 = i) { y[v] = x[v] / d[0] } } }"),
                            TargetOf(kFma))
                          ->run))
      << "no number";
  EXPECT_TRUE(Divides(Lower(test::Parse("func f(x: f32[8] input, y: f32[8] output) {"
                                        " for i in 8 { block b(v: S 8 = i) { y[v] = 3.0 / x[v] } } }"),
                            TargetOf(kFma))
                          ->run))
      << "the dividend is the number";
}

// Evaluates x * high + x * low for all mantissas of x, with the numbers that lowering chooses.
TEST(Division, AllMantissasRoundAlike) {
  for (const float d : {3.0f, 0.1f, -0.007843138f}) {
    const Expr x = VarOf(Name("x"), DType::Float(32));
    const Expr product = ExpandDivision(x / FloatConst(d), TargetOf(kFma));
    const Call* fma = product.As<Call>();
    ASSERT_TRUE(fma && fma->op == Op::kFma) << d;
    const auto number = [](const Expr& e) { return static_cast<float>(e.As<FloatImm>()->value); };
    const float high = number(fma->args[1]), low = number(fma->args[2].As<Binary>()->b);
    uint32_t different = 0;
    for (uint32_t bits = 0x3f800000; bits < 0x40000000; ++bits) {
      const auto dividend = std::bit_cast<float>(bits);
      different += std::fma(dividend, high, dividend * low) != dividend / d;
    }
    EXPECT_EQ(different, 0U) << d;
  }
}

}  // namespace
}  // namespace autotune
