// Random legal traces over random programs: lowered pass by pass and compiled, they compute what the program says.
// AUTOTUNE_CODEGEN_SEEDS: how many programs (default 60).
#include <cstdlib>

#include "ir/verify.h"
#include "schedule/schedule.h"
#include "tests/codegen/kernel.h"
#include "tests/ir/random_program.h"
#include "tests/schedule/step_source.h"
#include "tests/schedule/zoo.h"

namespace autotune {
namespace {

// Counts what was built; a rejected candidate is no failure.
void CheckTrace(const PrimFunc& f, uint64_t seed, int steps, int& built_count, int& rejected) {
  StepSource source(seed);
  Schedule schedule(f);
  for (int i = 0; i < steps; ++i) (void)schedule.Apply(source.Next(schedule), &source.rng());
  SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + ToText(schedule.trace()) + ToText(schedule.func()));
  PassContext context;
  context.after = [&](std::string_view pass, const PrimFunc& g) {
    Status verified = Verify(g);
    EXPECT_TRUE(verified.ok()) << pass << ": " << verified.error().Text() << "\n" << ToText(g);
  };
  auto lowered = Lower(schedule.func(), Cpu(), context);
  if (!lowered.ok()) {
    ++rejected;
    return;
  }
  auto built = Build(schedule.func());
  if (!built.ok()) {
    ASSERT_TRUE(built.error().Text().starts_with("rejected")) << built.error().Text();
    ++rejected;
    return;
  }
  ++built_count;
  std::vector<InterpArray> args = testing::RandomArgs(f, seed), want = args, got = args;
  for (size_t i = 0; i < args.size(); ++i) {
    if (f.params[i].role == ParamRole::kOutput) {
      int64_t count = 1;
      for (int64_t extent : args[i].shape) count *= extent;
      got[i].data.assign(static_cast<size_t>(count), 0);
    }
  }
  Status interpreted = Interpret(f, want);
  ASSERT_TRUE(interpreted.ok()) << interpreted.error().Text();
  Status ran = Run(*built, f, got);
  ASSERT_TRUE(ran.ok()) << ran.error().Text();
  for (size_t i = 0; i < args.size(); ++i) {
    if (f.params[i].role != ParamRole::kOutput) continue;
    ASSERT_EQ(got[i].data, want[i].data) << ToText(lowered->run);
  }
}

TEST(CompiledRandomTraces, AgreeWithTheInterpreter) {
  const char* seeds = getenv("AUTOTUNE_CODEGEN_SEEDS");
  uint64_t n = seeds ? strtoull(seeds, nullptr, 10) : 60;
  int built = 0, rejected = 0;
  for (uint64_t seed = 0; seed < n && !HasFailure(); ++seed) {
    CheckTrace(testing::RandomProgram(seed).Make(), seed, 30, built, rejected);
    if (seed % 3 == 0) {
      zoo::ConvShape shape{
          .h = 3 + static_cast<int64_t>(seed % 5), .w = 5, .ic = 1 + static_cast<int64_t>(seed % 4), .oc = 9};
      CheckTrace(zoo::ConvBiasRelu(shape, seed % 2), seed, 30, built, rejected);
    }
  }
  EXPECT_GT(built, static_cast<int>(n / 3));
  if (seeds) printf("%d built, %d rejected\n", built, rejected);
}

}  // namespace
}  // namespace autotune
