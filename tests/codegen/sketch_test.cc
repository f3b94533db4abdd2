// Compiles scheduled operators of real networks and compares every element with the interpreter.
#include "tests/schedule/sketch.h"

#include "schedule/replay.h"
#include "tests/codegen/kernel.h"
#include "tests/draws.h"
#include "tests/ir/random_program.h"
#include "tests/schedule/zoo.h"

namespace autotune {
namespace {

// Compiles `wanted` samples of a sketch and compares their results. On targets with few registers many samples are
// rejected, but at least one of kDraws must be accepted.
void CheckSamples(const PrimFunc& f, const std::string& sketch, int wanted, const Target& target) {
  constexpr int kDraws = 16;
  Trace trace = ParseTrace(sketch).value();
  Rng rng(3);
  int checked = 0;
  std::vector<InterpArray> args = SmallIntegers(f, 5), want = args;
  ASSERT_TRUE(Interpret(f, want).ok());
  for (int i = 0; i < wanted * kDraws && checked < wanted; ++i) {
    auto schedule = Replay(f, trace, {.rng = &rng});
    ASSERT_TRUE(schedule.ok()) << schedule.error().Text();
    SCOPED_TRACE(ToText(schedule->trace()));
    auto built = Build(schedule->func(), target);
    if (!built.ok()) {
      EXPECT_NE(built.error().Text().find("rejected"), std::string::npos) << built.error().Text();
      continue;
    }
    ++checked;
    std::vector<InterpArray> got = args;
    Status ran = Run(*built, f, got);
    ASSERT_TRUE(ran.ok()) << ran.error().Text();
    for (size_t p = 0; p < args.size(); ++p) {
      if (f.params[p].role != ParamRole::kOutput) continue;
      ASSERT_EQ(got[p].data, want[p].data);
    }
  }
  EXPECT_EQ(checked, wanted);
}

void CheckSamples(const PrimFunc& f, const std::string& sketch, int wanted) {
  for (const Target& target : Generators()) {
    SCOPED_TRACE(target.Text());
    // C compilers take most of the time, and random traces are compiled by them, too.
    CheckSamples(f, sketch, target.kind == TargetKind::kC ? 1 : wanted, target);
  }
}

TEST(CompiledSketch, Convolutions) {
  SketchNames names;
  names.before = "compute_inline(add)\n";
  CheckSamples(zoo::ConvBiasRelu({.h = 7, .w = 7, .ic = 3, .oc = 20}), Sketch(names), 4);
  CheckSamples(zoo::ConvBiasRelu({.h = 9, .w = 6, .ic = 5, .oc = 33, .stride = 2}), Sketch(names), 4);
  CheckSamples(zoo::ConvBiasRelu({.h = 9, .w = 11, .ic = 4, .oc = 8, .dilation = 2}), Sketch(names), 3);
  names.before = "compute_inline(sum)\n" + names.before;
  CheckSamples(zoo::ConvBiasRelu({.h = 5, .w = 4, .ic = 7, .oc = 13}, true), Sketch(names), 4);
}

TEST(CompiledSketch, Dense) {
  SketchNames dense{.anchor = "dense",
                    .weight = "b",
                    .batch = "",
                    .m = "dense_m",
                    .oc = "dense_n",
                    .k = "dense_k",
                    .reduce = "",
                    .weight_rank = 2};
  CheckSamples(zoo::Dense(1, 10, 7), Sketch(dense), 3);
  CheckSamples(zoo::Dense(23, 41, 9), Sketch(dense), 4);
}

TEST(CompiledSketch, Unscheduled) {
  AgreesWithInterpreter(zoo::ConvBiasRelu({.h = 6, .w = 5, .ic = 3, .oc = 9, .stride = 2}));
  AgreesWithInterpreter(zoo::ConvBiasRelu({.h = 6, .w = 5, .ic = 4, .oc = 8, .groups = 2}));
  AgreesWithInterpreter(zoo::MaxPool({.h = 7, .w = 6, .oc = 5, .stride = 2}));
  AgreesWithInterpreter(zoo::Elementwise(7, 13));
}

TEST(CompiledSketch, RandomPrograms) {
  for (uint64_t i = 1; i <= 60; ++i) {
    if (!test::IsDrawn(i, 3)) continue;
    const uint64_t seed = test::DrawSeed() * 64 + i;
    SCOPED_TRACE(seed);
    AgreesWithInterpreter(test::MakeRandomProgram(seed), seed);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace autotune
