// Deliberate mistakes in lowering (lower/miscompile.h). Each mistake changes the results of a program. The program's
// text determines whether a mistake is made, and which.
#include "lower/miscompile.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/interp.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "lower/lower.h"
#include "tests/ir/parse.h"
#include "tests/ir/random_program.h"

namespace autotune {
namespace {

// The program has a place for each mistake: an accumulator, an unrolled update and loops.
constexpr std::string_view kUnrolledMatmul = R"(func mm(a: f32[6, 8] input, b: f32[8, 4] input, c: f32[6, 4] output) {
  for i in 6 { for k in 8 { for j in 4 unrolled {
    block mm(vi: S 6 = i, vj: S 4 = j, vk: R 8 = k) {
      init { c[vi, vj] = 0.0 }
      c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vk, vj]
    }
  } } }
}
)";

Target TargetOfMistakes() {
  return Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -mattr=+avx2,+fma").value();
}

PrimFunc LoweredWith(const PrimFunc& f, Miscompile* miscompile) {
  auto kernel = Lower(f, TargetOfMistakes(), {}, miscompile);
  EXPECT_TRUE(kernel.ok()) << kernel.error().Text();
  EXPECT_TRUE(Verify(kernel->run).ok()) << ToText(kernel->run);
  return kernel->run;
}

// Returns how many elements of the output differ from those that `f` computes.
int WrongElements(const PrimFunc& f, const PrimFunc& lowered) {
  std::vector<InterpArray> want = test::RandomArgs(f, 1);
  for (InterpArray& array : want) {
    for (double& x : array.data) x = std::fabs(x) + 1;  // positive, so that every mistake changes every sum
  }
  std::vector<InterpArray> got = want;
  EXPECT_TRUE(Interpret(f, want).ok());
  for (size_t i = 0; i < got.size(); ++i) got[i].shape = ConstShape(lowered.params[i].buffer);
  EXPECT_TRUE(Interpret(lowered, got).ok()) << ToText(lowered);
  int wrong = 0;
  for (size_t k = 0; k < want.back().data.size(); ++k) wrong += !(want.back().data[k] == got.back().data[k]);
  return wrong;
}

TEST(Miscompile, EachMistakeChangesWhatIsComputed) {
  PrimFunc f = test::Parse(kUnrolledMatmul);
  EXPECT_EQ(WrongElements(f, LoweredWith(f, nullptr)), 0);
  for (auto [bug, wrong] : {std::pair{Bug::kStartsAtOne, 24},        // all elements
                            std::pair{Bug::kLosesLastIteration, 4},  // the last row
                            std::pair{Bug::kLosesAnUpdate, 6}}) {    // the first column
    SCOPED_TRACE(ToText(bug));
    Miscompile miscompile{bug};
    PrimFunc lowered = LoweredWith(f, &miscompile);
    EXPECT_TRUE(miscompile.applied);
    EXPECT_EQ(WrongElements(f, lowered), wrong) << ToText(lowered);
  }
}

TEST(Miscompile, AProgramWithoutAPlaceForItStaysRight) {
  PrimFunc f =
      test::Parse("func one(a: f32[1] input, c: f32[1] output) { for i in 1 { block x(v: S 1 = i) { c[v] = a[v] } } }");
  for (Bug bug : {Bug::kStartsAtOne, Bug::kLosesLastIteration, Bug::kLosesAnUpdate}) {
    Miscompile miscompile{bug};
    EXPECT_EQ(WrongElements(f, LoweredWith(f, &miscompile)), 0);
    EXPECT_FALSE(miscompile.applied);
  }
}

TEST(Miscompile, FollowsFromTheText) {
  PrimFunc f = test::Parse(kUnrolledMatmul);
  std::map<Bug, int> planned;
  for (int i = 0; i < 400; ++i) {
    f.name = "mm" + std::to_string(i);
    EXPECT_FALSE(PlanMiscompile(f, 0));
    EXPECT_TRUE(PlanMiscompile(f, 100));
    std::optional<Miscompile> half = PlanMiscompile(f, 50), again = PlanMiscompile(test::Parse(ToText(f)), 50);
    ASSERT_EQ(half.has_value(), again.has_value());
    if (!half) continue;
    EXPECT_EQ(half->bug, again->bug);
    ++planned[half->bug];
  }
  for (Bug bug : {Bug::kStartsAtOne, Bug::kLosesLastIteration, Bug::kLosesAnUpdate}) {
    EXPECT_GE(planned[bug], 40) << ToText(bug);
    EXPECT_LE(planned[bug], 95) << ToText(bug);
  }
}

}  // namespace
}  // namespace autotune
