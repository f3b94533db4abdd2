// A pass that claims to be idempotent (lower/lower.cc) changes nothing when it runs again on its result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir/threads.h"
#include "lower/passes.h"
#include "tests/ir/random_program.h"
#include "tests/lower/refusals.h"
#include "tests/schedule/step_source.h"
#include "tests/schedule/workload.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;

// Counts the programs that reached the end of the pipeline, and those that a pass refused.
struct Tally {
  int finished = 0, refused = 0;
};

// Runs the passes in order, and each idempotent pass twice. Returns a description of the first change by a second run,
// or "". Stops without an error if a pass refuses the program for one of the listed reasons.
std::string Unstable(std::span<const LoweringPass> passes, PrimFunc f, Tally& tally,
                     std::span<const char* const> refusals = kLoweringRefusals) {
  Target target = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -mattr=+avx2,+fma").value();
  PassContext context;
  PassEnv env{target, context, nullptr, {}};
  for (const LoweringPass& pass : passes) {
    Result<PrimFunc> once = pass.run(f, env);
    if (!once.ok()) {
      if (!IsAmong(once.error().message, refusals)) return "refused: " + once.error().Text() + "\n" + ToText(f);
      ++tally.refused;
      return "";
    }
    f = *once;
    if (!pass.idempotent) continue;
    Result<PrimFunc> twice = pass.run(f, env);
    if (!twice.ok()) return std::string(pass.name) + " refuses what it has made: " + twice.error().Text() + ToText(f);
    if (Equal(*twice, f)) continue;
    return std::string(pass.name) + " changes what it has made: " + FirstMismatch(*twice, f) + "\n" + ToText(f) +
           "became\n" + ToText(*twice);
  }
  ++tally.finished;
  return "";
}
std::string Unstable(const PrimFunc& f, Tally& tally) {
  PrepareSplit split = SplitPrepare(f);
  std::string found = Unstable(LoweringPipeline(), split.run, tally);
  return found.empty() && split.prepare ? Unstable(LoweringPipeline(), *split.prepare, tally) : found;
}

TEST(Idempotent, OnRandomPrograms) {
  Tally tally;
  for (uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    EXPECT_EQ(Unstable(test::MakeRandomProgram(seed), tally), "") << "seed " << seed;
  }
  EXPECT_GE(tally.finished, 60) << tally.refused << " refused";
}

TEST(Idempotent, OnRandomSchedulesOfEveryWorkload) {
  constexpr int kSeeds = 48;
  for (const std::string& kind : zoo::WorkloadKinds()) {
    Tally tally;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      SCOPED_TRACE(kind + " seed " + std::to_string(seed));
      Rng rng(seed);
      StepSource source(seed, /*threads=*/false);  // the pipeline for CPUs refuses threads
      Schedule schedule(zoo::MakeProgram(zoo::DrawWorkload(kind, rng)));
      for (int i = 0; i < 24; ++i) (void)schedule.Apply(source.Next(schedule), &source.rng());
      EXPECT_EQ(Unstable(schedule.func(), tally), "");
      if (HasFailure()) return;
    }
    EXPECT_GE(tally.finished, kSeeds * 3 / 4) << kind << ": " << tally.refused << " refused";
  }
}

TEST(Idempotent, OnRandomSchedulesWithThreads) {
  Tally tally;
  for (uint64_t seed = 0; seed < 300 && !HasFailure(); ++seed) {
    Rng rng(seed);
    StepSource source(seed);
    Schedule schedule(zoo::MakeProgram(zoo::DrawWorkload(rng)));
    for (int i = 0; i < 30; ++i) (void)schedule.Apply(source.Next(schedule), &source.rng());
    if (HasThreads(schedule.func().body)) {
      EXPECT_EQ(Unstable(GpuPipeline(), schedule.func(), tally, kGpuRefusals), "") << "seed " << seed;
    }
  }
  EXPECT_GT(tally.finished, 50) << tally.refused << " refused";
}

// Two passes with a false claim: one changes any program, the other refuses its own result.
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
  PrimFunc f = test::MakeRandomProgram(1);
  Tally tally;
  LoweringPass honest[] = {{"rename", Renamed, false}};
  EXPECT_EQ(Unstable(honest, f, tally), "");
  LoweringPass changes[] = {{"rename", Renamed, true}};
  EXPECT_THAT(Unstable(changes, f, tally), HasSubstr("rename changes what it has made: name: "));
  LoweringPass refuses[] = {{"once", Once, true}};
  EXPECT_THAT(Unstable(refuses, f, tally), HasSubstr("once refuses what it has made: seen before"));
}

}  // namespace
}  // namespace autotune
