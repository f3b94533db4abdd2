// Options of the lowering pipeline. If any one pass that may be disabled is disabled, programs keep their meaning.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/interp.h"
#include "ir/text.h"
#include "lower/lower.h"
#include "tests/after_pass.h"
#include "tests/ir/parse.h"
#include "tests/ir/random_program.h"
#include "tests/lower/refusals.h"
#include "tests/lower/run_lowered.h"
#include "tests/schedule/workload.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;

const std::vector<PassTable> kTables = {LoweringPassTable()};

Target PipelineTarget() {
  return Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -mattr=+avx2,+fma").value();
}

bool Same(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

constexpr std::string_view kTiled = R"(func mm(a: f32[13, 8] input, b: f32[8, 20] constant, c: f32[13, 20] output) {
  for i0 in 3 parallel { for j0 in 3 { for k in 8 { for i1 in 6 unrolled { for j1 in 8 vectorized {
    block mm(vi: S 13 = i0 * 6 + i1, vj: S 20 = j0 * 8 + j1, vk: R 8 = k) where i0 * 6 + i1 < 13 && j0 * 8 + j1 < 20 {
      init { c[vi, vj] = 0.0 }
      c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vk, vj]
    }
  } } } } }
}
)";

std::vector<PrimFunc> Programs() {
  std::vector<PrimFunc> programs;
  if (Result<PrimFunc> tiled = ParsePrimFunc(kTiled); tiled.ok()) programs.push_back(*tiled);
  for (uint64_t seed = 1; seed <= 40; ++seed) programs.push_back(test::MakeRandomProgram(seed));
  return programs;
}

TEST(LoweringPipeline, KeepsTheMeaningWithoutAnyPassThatMayBeDisabled) {
  const std::vector<PrimFunc> programs = Programs();
  ASSERT_EQ(programs.size(), 41u);
  int passes = 0;
  for (const PassRow& row : LoweringPassTable().passes) {
    PassConfig config;
    Status disabled = config.Disable(row.name, kTables);
    EXPECT_EQ(disabled.ok(), row.needed.empty()) << row.name;
    if (!disabled.ok()) {
      EXPECT_THAT(disabled.error().Text(), HasSubstr(row.needed));
      continue;
    }
    ++passes;
    int lowered = 0;
    for (const PrimFunc& f : programs) {
      std::vector<InterpArray> args = test::RandomArgs(f, 3);
      std::string error;
      Result<LoweredKernel> with = Lower(f, PipelineTarget());
      ASSERT_TRUE(with.ok()) << with.error().Text();
      std::vector<double> want = RunLowered(f, *with, args, error);
      Result<LoweredKernel> without = Lower(f, PipelineTarget(), PassContext(config));
      if (!without.ok()) {
        EXPECT_TRUE(IsAmong(without.error().message, kLoweringRefusals)) << without.error().Text();
        continue;
      }
      std::vector<double> got = RunLowered(f, *without, args, error);
      ASSERT_EQ(error, "") << row.name << "\n" << ToText(f) << ToText(without->run);
      ASSERT_TRUE(Same(want, got)) << "without " << row.name << "\n" << ToText(f) << ToText(without->run);
      ++lowered;
    }
    EXPECT_GE(lowered, 38) << row.name;
  }
  EXPECT_GE(passes, 9);
}

TEST(LoweringPipeline, DisabledPassesDoNotRunAndOthersAreTimed) {
  const PrimFunc f = test::Parse(kTiled);
  std::vector<std::string> ran;
  PassContext context(PassConfig{.disabled = {"simplify", "split_prepare"}, .time = true});
  context.Add(std::make_shared<test::AfterPass<PrimFuncView>>(
      [&](std::string_view pass, const PrimFuncView&) { ran.emplace_back(pass); }));
  ASSERT_TRUE(Lower(f, PipelineTarget(), context).ok());
  std::vector<std::string> expected;
  for (const PassRow& row : LoweringPassTable().passes) {
    if (row.name == "simplify" || row.name == "split_prepare") continue;
    expected.emplace_back(row.name);
    EXPECT_EQ(context.Times()[std::string(row.name)].runs, 1) << row.name;
  }
  EXPECT_EQ(ran, expected);
  EXPECT_EQ(context.Times().size(), expected.size());
}

TEST(LoweringPipeline, TheUnrollLimitRefusesLargerNests) {
  const PrimFunc f = test::Parse(kTiled);
  PassConfig config;
  ASSERT_TRUE(config.SetOption("unroll_limit=2", kTables).ok());
  Result<LoweredKernel> refused = Lower(f, PipelineTarget(), PassContext(config));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().Text(), HasSubstr("makes more than 2 statements"));
  EXPECT_TRUE(Lower(f, PipelineTarget()).ok());
}

}  // namespace
}  // namespace autotune
