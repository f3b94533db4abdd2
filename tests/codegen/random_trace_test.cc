// Random legal traces over random programs: lowered pass by pass and compiled, they compute what the program says. A
// case that does not is shrunk and printed. AUTOTUNE_CODEGEN_SEEDS: how many programs (default 160).
#include <cstdlib>

#include "ir/verify.h"
#include "schedule/schedule.h"
#include "tests/codegen/kernel.h"
#include "tests/schedule/case.h"
#include "tests/schedule/step_source.h"

namespace autotune {
namespace {

using zoo::Case;
using zoo::Checker;
using zoo::Workload;

struct Tally {
  int built = 0, rejected = 0;
};

// Arguments for a kernel: outputs too have their elements.
std::vector<InterpArray> WithOutputs(const PrimFunc& f, std::vector<InterpArray> args) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (f.params[i].role != ParamRole::kOutput) continue;
    int64_t count = 1;
    for (int64_t extent : args[i].shape) count *= extent;
    args[i].data.assign(static_cast<size_t>(count), 0);
  }
  return args;
}

// What is wrong with the compiled schedule, or "". A rejected candidate is not wrong.
std::string WrongCompiled(const Workload& workload, const Schedule& schedule, Tally& tally) {
  Checker checker(workload, 3);
  std::string malformed;
  PassContext context;
  context.after = [&](std::string_view pass, const PrimFunc& g) {
    Status verified = Verify(g);
    if (!verified.ok() && malformed.empty()) malformed = std::string(pass) + ": " + verified.error().Text();
  };
  auto lowered = Lower(schedule.func(), Cpu(), context);
  if (!malformed.empty()) return malformed;
  auto built = lowered.ok() ? Build(schedule.func()) : Result<Built>(lowered.error());
  if (!built.ok()) {
    ++tally.rejected;
    return lowered.ok() && !built.error().Text().starts_with("rejected") ? built.error().Text() : "";
  }
  ++tally.built;
  std::vector<InterpArray> got = WithOutputs(checker.func(), checker.integers());
  Status ran = Run(*built, checker.func(), got);
  if (!ran.ok()) return ran.error().Text();
  std::string wrong = checker.CompareIntegers(got, IsExact(workload) ? 0 : 1e-4);
  if (!wrong.empty()) return wrong;
  got = WithOutputs(checker.func(), checker.floats());
  ran = Run(*built, checker.func(), got);
  return ran.ok() ? checker.CompareFloats(got) : ran.error().Text();
}

TEST(CompiledRandomTraces, AgreeWithTheInterpreter) {
  const char* seeds = getenv("AUTOTUNE_CODEGEN_SEEDS");
  uint64_t n = seeds ? strtoull(seeds, nullptr, 10) : 160;
  Tally tally;
  for (uint64_t seed = 0; seed < n && !HasFailure(); ++seed) {
    Rng rng(seed);
    Case c{zoo::DrawWorkload(rng), {}};
    StepSource source(seed, /*threads=*/false);
    Schedule schedule(MakeProgram(c.workload));
    for (int i = 0; i < 24; ++i) (void)schedule.Apply(source.Next(schedule), &source.rng());
    std::string wrong = WrongCompiled(c.workload, schedule, tally);
    if (wrong.empty()) continue;
    c.trace = schedule.trace();
    Tally ignored;
    zoo::Judge judge = [&](const Workload& w, const Schedule& s) { return WrongCompiled(w, s, ignored); };
    Case least = Shrink(c, judge);
    Schedule shrunk = zoo::ApplyLegal(MakeProgram(least.workload), least.trace);
    ADD_FAILURE() << judge(least.workload, shrunk) << "\n"
                  << ToText(least) << ToText(shrunk.func()) << "\nshrunk from (" << wrong << ")\n"
                  << ToText(c);
  }
  EXPECT_GT(tally.built, static_cast<int>(n / 2));
  printf("%d built, %d rejected\n", tally.built, tally.rejected);
}

// An element off by one, or by a hundredth: the comparison notices.
TEST(CompiledRandomTraces, AWrongElementIsNoticed) {
  Workload workload = zoo::ParseWorkload("elementwise(rows=3, columns=5, outputs=1)").value();
  Checker checker(workload, 3);
  auto built = Build(checker.func());
  ASSERT_TRUE(built.ok()) << built.error().Text();
  std::vector<InterpArray> got = WithOutputs(checker.func(), checker.integers());
  ASSERT_TRUE(autotune::Run(*built, checker.func(), got).ok());
  EXPECT_EQ(checker.CompareIntegers(got, 0), "");
  got.back().data[7] += 1;
  EXPECT_NE(checker.CompareIntegers(got, 0), "");
  got = WithOutputs(checker.func(), checker.floats());
  ASSERT_TRUE(autotune::Run(*built, checker.func(), got).ok());
  EXPECT_EQ(checker.CompareFloats(got), "");
  got.back().data[7] += 0.01;
  EXPECT_NE(checker.CompareFloats(got), "");
}

}  // namespace
}  // namespace autotune
