// Schedules of products of words (ir/dot.h): which there are, and the registers and cycles that the draft score counts.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tuner/programs.h"
#include "tuner/draft_cycles.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

// Returns how many sketches take the steps of the sum in pairs.
int64_t SketchesWithDots(const PrimFunc& func, const Target& target) {
  const auto sketches = GenerateSketches(func, target);
  EXPECT_TRUE(sketches.ok());
  return std::ranges::count_if(*sketches, [](const Sketch& s) { return s.name.find(":dots") != std::string::npos; });
}

TEST(Words, AreMultipliedInPairsWhereTheTargetDoes) {
  const Target vnni = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -num-cores=2").value();
  EXPECT_EQ(SketchesWithDots(test::WordsDense(64, 64, 64), test::TestTarget()), 2);
  EXPECT_EQ(SketchesWithDots(test::WordsDense(64, 64, 63), test::TestTarget()), 0) << "no whole number of pairs";
  EXPECT_EQ(SketchesWithDots(test::WordsDense(64, 64, 64), vnni), 0) << "the target has none";
}

// A product that another instruction adds needs a register in between.
TEST(Words, NeedARegisterForTheirProducts) {
  const Target target = test::TestTarget();
  ASSERT_EQ(target.vector_registers, 16);
  EXPECT_TRUE(FitsRegisters(12, 2, 1, target, /*apart=*/true));
  EXPECT_FALSE(FitsRegisters(12, 3, 1, target, /*apart=*/true));
  EXPECT_TRUE(FitsRegisters(12, 3, 1, target));
}

// Few sums wait for a multiply-add, but not for an addition of integers.
TEST(Words, AreAddedInOneCycle) {
  const Machine& machine = MachineOf(test::TestTarget());
  EXPECT_LT(StepCycles(1, 1, 1, machine, /*apart=*/true), StepCycles(1, 1, 1, machine));
  EXPECT_GT(StepCycles(12, 1, 1, machine, /*apart=*/true), StepCycles(12, 1, 1, machine))
      << "they are two instructions";
}

}  // namespace
}  // namespace autotune
