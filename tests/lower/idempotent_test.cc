// Passes that claim to be idempotent (lower/lower.cc) are: run again on what they have made, they change nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"
#include "lower/passes.h"
#include "tests/ir/random_program.h"
#include "tests/schedule/step_source.h"
#include "tests/schedule/workload.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;

Target Avx2() { return Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -mattr=+avx2,+fma").value(); }

// Runs the passes one after the other, each that claims to be idempotent twice. What the second run has changed, or "".
// Ends early where a pass refuses the program.
std::string Unstable(std::span<const LoweringPass> passes, PrimFunc f) {
  Target target = Avx2();
  PassContext context;
  PassEnv env{target, context, {}};
  for (const LoweringPass& pass : passes) {
    Result<PrimFunc> once = pass.run(f, env);
    if (!once.ok()) return "";
    f = *once;
    if (!pass.idempotent) continue;
    Result<PrimFunc> twice = pass.run(f, env);
    if (!twice.ok()) return std::string(pass.name) + " refuses what it has made: " + twice.error().Text() + ToText(f);
    if (Equal(*twice, f)) continue;
    return std::string(pass.name) + " changes what it has made: " + FirstMismatch(*twice, f) + "\n" + ToText(f) +
           "became\n" + ToText(*twice);
  }
  return "";
}
std::string Unstable(const PrimFunc& f) {
  PrepareSplit split = SplitPrepare(f);
  std::string found = Unstable(LoweringPipeline(), split.run);
  return found.empty() && split.prepare ? Unstable(LoweringPipeline(), *split.prepare) : found;
}

TEST(Idempotent, OnRandomPrograms) {
  for (uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    EXPECT_EQ(Unstable(testing::MakeRandomProgram(seed)), "") << "seed " << seed;
  }
}

TEST(Idempotent, OnRandomSchedulesOfEveryWorkload) {
  for (const std::string& kind : zoo::WorkloadKinds()) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      SCOPED_TRACE(kind + " seed " + std::to_string(seed));
      Rng rng(seed);
      StepSource source(seed);
      Schedule schedule(zoo::MakeProgram(zoo::DrawWorkload(kind, rng)));
      for (int i = 0; i < 24; ++i) (void)schedule.Apply(source.Next(schedule), &source.rng());
      EXPECT_EQ(Unstable(schedule.func()), "");
      if (HasFailure()) return;
    }
  }
}

// Passes that claim it and are not: one changes whatever it gets, one refuses it.
Result<PrimFunc> Renamed(const PrimFunc& f, PassEnv&) {
  PrimFunc renamed = f;
  renamed.name = f.name.str() + "_again";
  return renamed;
}
Result<PrimFunc> Once(const PrimFunc& f, PassEnv& env) {
  if (f.name.str().ends_with("_again")) return Err("seen before");
  return Renamed(f, env);
}

TEST(Idempotent, AFalseClaimIsFound) {
  PrimFunc f = testing::MakeRandomProgram(1);
  LoweringPass honest[] = {{"rename", Renamed, false}};
  EXPECT_EQ(Unstable(honest, f), "");
  LoweringPass changes[] = {{"rename", Renamed, true}};
  EXPECT_THAT(Unstable(changes, f), HasSubstr("rename changes what it has made: name: "));
  LoweringPass refuses[] = {{"once", Once, true}};
  EXPECT_THAT(Unstable(refuses, f), HasSubstr("once refuses what it has made: seen before"));
}

}  // namespace
}  // namespace autotune
