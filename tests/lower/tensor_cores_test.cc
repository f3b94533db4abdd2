// Tensor core products, lowered: a warp computes the same bits as the annotated loops, for any layout of the operands.
// Loops that are no such product, and targets without tensor cores, are refused with the reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/threads.h"
#include "ir/verify.h"
#include "ir/visit.h"
#include "tests/ir/parse.h"
#include "tests/ir/random_program.h"
#include "tests/lower/mma_program.h"
#include "tests/lower/run_lowered.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;
using Replaced = std::vector<std::pair<std::string, std::string>>;

Target Cuda(const std::string& options) {
  return Target::Parse("cuda -mtriple=x86_64-linux-gnu -arch=" + options).value();
}

int CountMma(const Stmt& s) {
  int count = 0;
  Walk(s, [&](const Stmt& x) { return count += IsMma(x), true; });
  return count;
}

// Returns the reason for which lowering refuses the product, or "".
std::string Refusal(const std::string& type, const Target& target, const Replaced& replaced = {}) {
  const PrimFunc f = test::Parse(test::MmaProgramText(type, false, replaced));
  const Result<LoweredKernel> kernel = Lower(f, target);
  return kernel.ok() ? "" : kernel.error().message;
}

TEST(TensorCores, ComputeWhatTheLoopsDid) {
  for (const char* type : test::kMmaOperands) {
    for (bool transposed : {false, true}) {
      const PrimFunc f = test::Parse(test::MmaProgramText(type, transposed));
      const LoweredKernel kernel = Lower(f, Cuda("sm_80 -tf32=1")).value();
      ASSERT_TRUE(Verify(kernel.run, Dialect::kLowered).ok());
      const std::string text = ToText(kernel.run);
      EXPECT_EQ(FirstMismatch(kernel.run, ParsePrimFunc(text).value()), "");
      EXPECT_EQ(CountMma(kernel.run.body), type == std::string("f32") ? 2 : 2) << text;
      for (uint64_t seed = 0; seed < 4; ++seed) {
        const std::vector<InterpArray> args = test::RandomArgs(f, seed);
        std::vector<InterpArray> plain = args;
        const Status interpreted = Interpret(f, plain, {.order_seed = seed});
        ASSERT_TRUE(interpreted.ok()) << interpreted.error().Text();
        std::string error;
        const std::vector<double> got = RunLowered(f, kernel, args, error, seed);
        EXPECT_EQ(error, "") << text;
        EXPECT_EQ(got, plain.back().data) << type << transposed << text;
      }
    }
  }
}

// Without a barrier, a thread reads an element before another thread has copied it, or after it is overwritten.
TEST(TensorCores, EachBarrierIsNeeded) {
  for (const char* type : test::kMmaOperands) {
    const PrimFunc f = test::Parse(test::MmaProgramText(type));
    const LoweredKernel kernel = Lower(f, Cuda("sm_80 -tf32=1")).value();
    int barriers = 0;
    Walk(kernel.run.body, [&](const Stmt& s) { return barriers += IsBarrier(s), true; });
    ASSERT_GT(barriers, 0);
    for (int which = 0; which < barriers; ++which) {
      LoweredKernel without = kernel;
      int seen = 0;
      without.run.body = RewriteStmt(kernel.run.body,
                                     [&](const Stmt& s) { return IsBarrier(s) && seen++ == which ? MakeSeq({}) : s; });
      std::string error;
      RunLowered(f, without, test::RandomArgs(f, 3), error, 1);
      EXPECT_THAT(error, testing::AnyOf(HasSubstr("race"), HasSubstr("never written"))) << which;
    }
  }
}

TEST(TensorCores, TargetsWithoutThemRefuse) {
  EXPECT_EQ(Refusal("f32", Cuda("sm_80 -tf32=1")), "");
  EXPECT_EQ(Refusal("f16", Cuda("sm_80")), "");
  EXPECT_THAT(Refusal("f32", Cuda("sm_80")), HasSubstr("the target does not allow TF32 (-tf32=1)"));
  EXPECT_THAT(Refusal("f16", Cuda("sm_75")), HasSubstr("sm_75 has none that multiply f16"));
  EXPECT_THAT(Refusal("bf16", Cuda("sm_75")), HasSubstr("sm_75 has none that multiply bf16"));
  EXPECT_THAT(Refusal("f16", Target::Parse("opencl -mtriple=x86_64-linux-gnu").value()),
              HasSubstr("loop h cannot be computed by tensor cores: OpenCL C has no instruction for them"));
}

TEST(TensorCores, LoopsThatAreNoProductAreRefused) {
  const Target target = Cuda("sm_80 -tf32=1");
  auto refusal = [&](const std::string& from, const std::string& to) { return Refusal("f16", target, {{from, to}}); };
  EXPECT_THAT(
      refusal("sum[v3, w3] = fma(C(sa[v3, k3]), C(sb[USE]), sum[v3, w3])", "sum[v3, w3] = C(sa[v3, k3]) * C(sb[USE])"),
      HasSubstr("it does not add a product to a sum"));
  EXPECT_THAT(refusal("C(sb[USE]), sum", "1.0, sum"), HasSubstr("its factors are not tf32(...) twice"));
  EXPECT_THAT(refusal("C(sa[v3, k3])", "C(sa[v3, (k3 + w3) % 32])"), HasSubstr("its operands are not one by rows"));
  EXPECT_THAT(refusal("C(sb[USE])", "C(sb[(k3 + v3) % 32, w3])"), HasSubstr("its operands are not one by rows"));
  EXPECT_THAT(refusal("R 32 = piece * 16 + step * LENGTH + s)", "R 32 = piece * 16 + step * LENGTH + s) where y3 < 4"),
              HasSubstr("cannot be computed by tensor cores"));
  EXPECT_THAT(Refusal("f32", target, {{"LENGTH", "16"}, {"STEPS", "1"}}),
              HasSubstr("its loops do not have 2, 2 and 8 iterations"));
  EXPECT_THAT(refusal("sum: f32[32, 16] register", "sum: f32[32, 16]"),
              HasSubstr("its sums are in memory that other threads can access"));
}

}  // namespace
}  // namespace autotune
