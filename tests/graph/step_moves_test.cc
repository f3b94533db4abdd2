#include "graph/step_moves.h"

#include <gtest/gtest.h>

#include "tests/graph/maker.h"
#include "tests/graph/reference.h"

namespace autotune::graph {
namespace {

// round(x) + round(round(c) * x), where c is a constant.
Graph Steps() {
  GraphBuilder b;
  const ValueId x = b.Input("x", {DType::Float(32), {2}});
  const ValueId c = b.Must(Op::kRound, {b.AddConstant("c", TensorValue::FromNumbers(DType::Float(32), {}, {2.2}))});
  const ValueId first = b.Must(Op::kRound, {x}), second = b.Must(Op::kRound, {b.Must(Op::kMul, {c, x})});
  b.Output(b.Must(Op::kAdd, {first, second}), "y");
  return b.Finish();
}

TEST(StepMoves, MoveWhatStepsRound) {
  const std::optional<Graph> g = WithStepMoves(Steps());
  ASSERT_TRUE(g && CheckGraph(*g).ok());
  ASSERT_EQ(g->inputs.size(), 2u);
  EXPECT_EQ(g->values[g->inputs[1]].name, "step_moves");
  EXPECT_EQ(g->Spec(g->inputs[1]).shape, Shape{2}) << "constants have no steps";
  const auto y = [&](double first, double second) {
    return reference::Evaluate(*g, {{{2}, {3.4, 1.75}}, {{2}, {first, second}}})[0].data;
  };
  constexpr double kUnit = 0x1p24;
  EXPECT_EQ(y(0, 0), (reference::Evaluate(Steps(), {{{2}, {3.4, 1.75}}})[0].data));
  EXPECT_EQ(y(0, 0), (std::vector<double>{10, 6}));
  EXPECT_EQ(y(0.1 * kUnit, 0), (std::vector<double>{11, 6}));
  EXPECT_EQ(y(0, -0.02 * kUnit), (std::vector<double>{10, 5}));
}

// Numbers that come from 16 bits have larger rounding errors, though they are widened before the step.
TEST(StepMoves, FollowTheTypeBeforeTheStep) {
  for (const DType type : {DType::Float(16), DType::BFloat16()}) {
    GraphBuilder b;
    const ValueId x = b.Must(Op::kCast, {b.Input("x", {type, {1}})}, CastAttrs{DType::Float(32)});
    b.Output(b.Must(Op::kRound, {x}), "y");
    const std::optional<Graph> g = WithStepMoves(b.Finish());
    ASSERT_TRUE(g && CheckGraph(*g).ok());
    const double unit = type == DType::BFloat16() ? 0x1p-8 : 0x1p-11;
    const auto y = [&](double move) { return reference::Evaluate(*g, {{{1}, {2.25}}, {{1}, {move}}})[0].data[0]; };
    EXPECT_EQ(y(0.12 / unit), 3);
    EXPECT_EQ(y(0.1 / unit), 2);
  }
}

TEST(StepMoves, NeedSteps) {
  GraphBuilder b;
  b.Output(b.Must(Op::kFloor, {b.Input("x", {DType::Float(32), {2}})}), "y");
  EXPECT_FALSE(WithStepMoves(b.Finish()));
  const std::optional<Graph> twice = WithStepMoves(*WithStepMoves(Steps()));
  EXPECT_EQ(twice->values[twice->inputs[2]].name, "step_moves_");
}

}  // namespace
}  // namespace autotune::graph
