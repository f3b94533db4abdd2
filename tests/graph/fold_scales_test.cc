// Divisions by a scale in the constants before them: results keep their meaning, and divisions stay where other numbers
// than constants would have to be divided or where ties are common.
#include <gtest/gtest.h>

#include <functional>

#include "graph/pass.h"
#include "tests/graph/quantizer.h"

namespace autotune::graph {
namespace {

constexpr ByteScale kA{0.0371, 17}, kB{0.0119, 200}, kTo{0.0507, 93};
const Shape kShape = {40, 64};

using Build = std::function<ValueId(Quantizer&)>;  // makes what is quantized to `to`

// Runs the pass. Expects that each result is right but for ties, of which there are at most 1 in 1,000. Returns how
// many divisions are left.
int Divisions(const Build& build, const ByteScale& to = kTo) {
  Quantizer m(5);
  m.b.Output(m.Quantize(build(m), to), "y");
  const Graph g = m.b.Finish(), now = *FoldScales(g, {});
  EXPECT_TRUE(CheckGraph(now).ok());
  const std::vector<reference::Tensor> in = RandomBytes(g, 8);
  const std::vector<double> want = reference::Evaluate(g, in)[0].data, got = reference::Evaluate(now, in)[0].data;
  int others = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_LE(std::abs(got[i] - want[i]), 1) << GraphText(now);
    others += got[i] != want[i];
  }
  EXPECT_LE(others, static_cast<int>(want.size() / 1000)) << GraphText(now);
  return CountOps(now, Op::kDiv);
}

ValueId Sum(Quantizer& m, ValueId x, ValueId y, Op op = Op::kAdd) { return m.b.Must(op, {x, y}); }

TEST(FoldScales, ConstantsTakeTheDivision) {
  EXPECT_EQ(Divisions([](Quantizer& m) { return m.Input("x", kShape, kA); }), 0);
  EXPECT_EQ(Divisions([](Quantizer& m) { return Sum(m, m.Input("x", kShape, kA), m.Random({1, 64})); }), 0);
  EXPECT_EQ(Divisions([](Quantizer& m) { return Sum(m, m.Random({1, 64}), m.Input("x", kShape, kA), Op::kSub); }), 0);
  EXPECT_EQ(Divisions([](Quantizer& m) { return Sum(m, m.Input("x", kShape, kA), m.Random({1, 64}), Op::kSub); }), 0);
  const auto two = [](Op op) {
    return [=](Quantizer& m) { return Sum(m, m.Input("x", kShape, kA), m.Input("y", kShape, kB), op); };
  };
  EXPECT_EQ(Divisions(two(Op::kAdd)), 0);
  EXPECT_EQ(Divisions(two(Op::kSub)), 0);
  EXPECT_EQ(Divisions([&](Quantizer& m) { return m.Relu(Sum(m, two(Op::kAdd)(m), m.Random({1, 64}))); }), 0);
  EXPECT_EQ(Divisions([](Quantizer& m) {
              return Sum(m, m.Relu(m.Input("x", kShape, kA)), m.Input("y", kShape, kB), Op::kSub);
            }),
            0);
  EXPECT_EQ(Divisions([&](Quantizer& m) {
              return m.b.Must(Op::kClip, {two(Op::kSub)(m)}, ClipAttrs{-2, INFINITY});
            }),
            0);
  EXPECT_EQ(Divisions([](Quantizer& m) {  // a scale for each column
              const ValueId x = m.b.Must(Op::kCast, {m.b.Input("x", {DType::UInt(8), kShape})}, CastAttrs{});
              return m.b.Must(Op::kMul, {x, m.Positive({1, 64})});
            }),
            0);
}

TEST(FoldScales, OtherDivisionsStay) {
  const auto x = [](Quantizer& m) { return m.Input("x", kShape, kA); };
  EXPECT_EQ(Divisions([&](Quantizer& m) { return Sum(m, x(m), m.b.Input("y", F32(kShape))); }), 1) << "of floats";
  EXPECT_EQ(Divisions([&](Quantizer& m) { return m.b.Must(Op::kTanh, {x(m)}); }), 1) << "of a function";
  EXPECT_EQ(Divisions([&](Quantizer& m) {
              const ValueId sum = Sum(m, x(m), m.Random({1, 64}));
              m.b.Output(sum, "sum");
              return sum;
            }),
            1)
      << "of a sum that others read";
  EXPECT_EQ(Divisions([&](Quantizer& m) { return Sum(m, x(m), m.Relu(m.Input("y", kShape, kB)), Op::kSub); }), 1)
      << "of a bound that is taken away: -relu(y) is not relu(-y)";
  EXPECT_EQ(Divisions(x, {-0.0507, 93}), 1) << "a negative scale";
  EXPECT_EQ(Divisions(x, {3e37, 93}), 1) << "quotients that are denormal";
}

TEST(FoldScales, ResultsKeepTheRankOfTheirDivisor) {
  const auto divisions = [](const Shape& shape) {
    Quantizer m(5);
    const ValueId scale = m.b.AddConstant("", TensorValue::FromNumbers(DType::Float(32), shape, {kTo.scale}));
    ValueId y = m.b.Must(Op::kRound, {m.b.Must(Op::kDiv, {m.Input("x", kShape, kA), scale})});
    y = m.b.Must(Op::kMax, {m.b.Must(Op::kAdd, {y, m.Number(93)}), m.Number(0)});
    m.b.Output(m.b.Must(Op::kMin, {y, m.Number(255)}), "y");
    const Graph g = m.b.Finish(), now = *FoldScales(g, {});
    EXPECT_EQ(now.Spec(now.outputs[0]).shape, g.Spec(g.outputs[0]).shape);
    return CountOps(now, Op::kDiv);
  };
  EXPECT_EQ(divisions({1, 1}), 0);
  EXPECT_EQ(divisions({1, 1, 1}), 1);
}

TEST(FoldScales, OtherRoundingsKeepTheirQuotients) {
  Quantizer m(5);
  const ValueId x = m.b.Must(Op::kDiv, {m.Input("x", kShape, kA), m.Number(kTo.scale)});
  m.b.Output(m.b.Must(Op::kRound, {x}), "y");
  EXPECT_EQ(CountOps(*FoldScales(m.b.Finish(), {}), Op::kDiv), 1);
}

// (x s + s / 2) / s is a tie for every x, and (x + y) / 2 for every second sum.
TEST(FoldScales, DivisionsWithManyTiesStay) {
  const auto half = [](double ratio, double offset) {
    return [=](Quantizer& m) {
      const ValueId x = m.Input("x", kShape, {ratio * kTo.scale, 17});
      return offset == 0 ? x : Sum(m, x, m.Number(offset * kTo.scale));
    };
  };
  EXPECT_EQ(Divisions(half(1, 0.5)), 1);
  EXPECT_EQ(Divisions(half(2.0 / 3, 0.5)), 1);
  EXPECT_EQ(Divisions(half(0.5, 0)), 1);
  EXPECT_EQ(Divisions(half(1.0 / 254, 0)), 1);
  EXPECT_EQ(Divisions(half(1, 0)), 0) << "whole numbers are no ties";
  EXPECT_EQ(Divisions(half(1.0 / 3, 0)), 0) << "nor are thirds";
  EXPECT_EQ(Divisions(half(1.0 / 3.14159, 0.5)), 0) << "no simple ratio";
}

}  // namespace
}  // namespace autotune::graph
