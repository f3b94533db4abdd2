#include "graph/step_factors.h"

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

TEST(StepFactors, MoveWhatStepsRound) {
  const std::optional<Graph> g = WithStepFactors(Steps());
  ASSERT_TRUE(g && CheckGraph(*g).ok());
  ASSERT_EQ(g->inputs.size(), 2u);
  EXPECT_EQ(g->values[g->inputs[1]].name, kStepFactors);
  EXPECT_EQ(g->Spec(g->inputs[1]).shape, Shape{2}) << "constants have no steps";
  const auto y = [&](double first, double second) {
    return reference::Evaluate(*g, {{{2}, {3.4, 1.75}}, {{2}, {first, second}}})[0].data;
  };
  EXPECT_EQ(y(1, 1), (reference::Evaluate(Steps(), {{{2}, {3.4, 1.75}}})[0].data));
  EXPECT_EQ(y(1, 1), (std::vector<double>{10, 6}));
  EXPECT_EQ(y(1.1, 1), (std::vector<double>{11, 6}));
  EXPECT_EQ(y(1, 0.98), (std::vector<double>{10, 5}));
}

TEST(StepFactors, NeedSteps) {
  GraphBuilder b;
  b.Output(b.Must(Op::kFloor, {b.Input("x", {DType::Float(32), {2}})}), "y");
  EXPECT_FALSE(WithStepFactors(b.Finish()));
  const std::optional<Graph> once = WithStepFactors(Steps());
  EXPECT_FALSE(WithStepFactors(*once)) << "it has this input";
}

}  // namespace
}  // namespace autotune::graph
