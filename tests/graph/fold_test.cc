#include "graph/pass.h"

#include <gtest/gtest.h>

#include "tests/graph/maker.h"

namespace autotune::graph {
namespace {

TEST(FoldBatchNorm, IntoConvolution) {
  Maker m(1);
  ValueId x = m.b.Input("x", F32({1, 4, 6, 6}));
  ValueId y = m.b.Must(Op::kAdd, {m.Conv(x, 6, 3, 2), m.Random({1, 6, 1, 1})});
  y = m.Norm(y);
  // Caffe exports batch normalization with a further scale and shift.
  y = m.b.Must(Op::kAdd, {m.b.Must(Op::kMul, {m.Random({6, 1, 1}), y}), m.Random({6, 1, 1})});
  m.b.Output(m.Relu(y), "y");
  Counting counting;
  Graph g =
      ExpectKept(m.b.Finish(), {{"fold_batch_norm", FoldBatchNorm}, {"fold_constants", FoldConstants}}, counting.env);
  EXPECT_EQ(counting.calls, 1);
  EXPECT_EQ(g.nodes.size(), 3u) << GraphText(g);  // conv2d, add, relu
}

TEST(FoldBatchNorm, OfDoubles) {
  Maker m(27);
  const DType f64 = DType::Float(64);
  auto constant = [&](const Shape& shape) {
    reference::Tensor t = reference::Random(shape, m.rng, f64);
    for (double& x : t.data) x = std::abs(x) + 0.5;  // positive, as a variance must be
    return m.b.AddConstant("", reference::ToValue(t));
  };
  ValueId x = m.b.Input("x", {f64, {1, 4, 6, 6}});
  ValueId y = m.b.Must(Op::kConv2d, {x, constant({3, 4, 3, 3})}, ConvAttrs{});
  y = m.b.Must(Op::kBatchNorm, {y, constant({3}), constant({3}), constant({3}), constant({3})}, BatchNormAttrs{});
  m.b.Output(y, "y");
  Counting counting;
  Graph g =
      ExpectKept(m.b.Finish(), {{"fold_batch_norm", FoldBatchNorm}, {"fold_constants", FoldConstants}}, counting.env);
  EXPECT_EQ(g.nodes.size(), 2u) << GraphText(g);  // conv2d, add
  EXPECT_EQ(g.Spec(g.outputs[0]).dtype, f64);
}

TEST(FoldBatchNorm, IntoProduct) {
  Maker m(2);
  ValueId x = m.b.Input("x", F32({3, 4}));
  m.b.Output(m.Norm(m.b.Must(Op::kMatmul, {x, m.Random({4, 5})})), "y");
  Counting counting;
  Graph g =
      ExpectKept(m.b.Finish(), {{"fold_batch_norm", FoldBatchNorm}, {"fold_constants", FoldConstants}}, counting.env);
  EXPECT_EQ(g.nodes.size(), 2u) << GraphText(g);
}

TEST(FoldBatchNorm, IntoConvolutionsOfThreeDimensions) {
  for (Layout layout : {Layout::kNCHW, Layout::kNHWC}) {
    Maker m(26);
    bool first = layout == Layout::kNCHW;
    ValueId x = m.b.Input("x", F32(first ? Shape{1, 3, 2, 4, 4} : Shape{1, 2, 4, 4, 3}));
    ValueId w = m.Random(first ? Shape{5, 3, 1, 2, 2} : Shape{1, 2, 2, 3, 5});
    ValueId y = m.b.Must(Op::kConv3d, {x, w}, ConvAttrs{{1, 1, 1}, Shape(6, 0), {1, 1, 1}, 1, layout});
    ValueId statistics[] = {m.Random({5}), m.Random({5}), m.Random({5}), m.Positive({5})};
    BatchNormAttrs norm{.axis = first ? 1 : 4};
    m.b.Output(m.b.Must(Op::kBatchNorm, {y, statistics[0], statistics[1], statistics[2], statistics[3]}, norm), "y");
    Counting counting;
    Graph g =
        ExpectKept(m.b.Finish(), {{"fold_batch_norm", FoldBatchNorm}, {"fold_constants", FoldConstants}}, counting.env);
    EXPECT_EQ(g.nodes.size(), 2u) << GraphText(g);
  }
}

// Packages store weights of 16 bits as such, and products read them so.
TEST(FoldBatchNorm, NotIntoWeightsOf16Bits) {
  for (const DType type : {DType::Float(16), DType::BFloat16(), DType::Float(32)}) {
    Maker m(8);
    std::vector<double> weights(20);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<double>(i) / 4 - 2;
    ValueId w = m.b.AddConstant("w", TensorValue::FromNumbers(type, {5, 4}, weights));
    if (type.IsHalf()) w = m.b.Must(Op::kCast, {w}, CastAttrs{DType::Float(32)});
    w = m.b.Transpose(w, {1, 0});
    m.b.Output(m.Norm(m.b.Must(Op::kMatmul, {m.b.Input("x", F32({3, 4})), w})), "y");
    const Graph g = ExpectKept(m.b.Finish(), {{"fold_batch_norm", FoldBatchNorm}}, {});
    const Node product = *std::ranges::find_if(g.nodes, [](const Node& node) { return node.op == Op::kMatmul; });
    const Node* weight = g.Producer(product.inputs[1]);
    ASSERT_NE(weight, nullptr);
    EXPECT_EQ(weight->op, type.IsHalf() ? Op::kTranspose : Op::kMul) << type.Text();
  }
}

// A convolution with these weights and a factor behind it. Returns whether the factor moves into the weights.
bool FoldsInto(const std::vector<double>& weights, double factor) {
  Maker m(31);
  const DType f32 = DType::Float(32);
  const ValueId w = m.b.AddConstant("", TensorValue::FromNumbers(f32, {2, 1, 1, 1}, weights));
  const ValueId s = m.b.AddConstant("", TensorValue::FromNumbers(f32, {}, {factor}));
  m.b.Output(m.b.Must(Op::kMul, {m.b.Must(Op::kConv2d, {m.b.Input("x", F32({1, 1, 4, 4})), w}, ConvAttrs{}), s}), "y");
  Counting counting;
  Graph g =
      ExpectKept(m.b.Finish(), {{"fold_batch_norm", FoldBatchNorm}, {"fold_constants", FoldConstants}}, counting.env);
  return CountOps(g, Op::kMul) == 0;
}

TEST(FoldBatchNorm, NotIfWeightsOverflowOrVanish) {
  EXPECT_TRUE(FoldsInto({0.5, -2}, 3));
  EXPECT_TRUE(FoldsInto({1e10, 0.5}, -1e10));
  EXPECT_TRUE(FoldsInto({1e-10, 1e-30}, 1e-10));
  EXPECT_TRUE(FoldsInto({0.5, -2}, 0));
  EXPECT_FALSE(FoldsInto({1e20, 0.5}, -1e20));
  EXPECT_FALSE(FoldsInto({1e-20, 1e-30}, 1e-20));
  for (double factor : {HUGE_VAL, -HUGE_VAL}) EXPECT_FALSE(FoldsInto({0.5, -2}, factor));
}

// Sums of whole numbers are often exact. Products with a fraction are not, and a step function may read them.
TEST(FoldBatchNorm, NotIfWholeWeightsBecomeFractions) {
  EXPECT_FALSE(FoldsInto({3, -2}, 0.1));
  EXPECT_TRUE(FoldsInto({3, -2}, 5));
  EXPECT_TRUE(FoldsInto({3, -2.5}, 0.1));
}

TEST(FoldBatchNorm, NormalizesBeforeItScalesIfTheScaleIsNoOrdinaryNumber) {
  for (double variance : {0.0, 1.0, 1e38}) {
    Maker m(32);
    auto numbers = [&](double x) {
      return m.b.AddConstant("", TensorValue::FromNumbers(DType::Float(32), {3}, {x, x, x}));
    };
    const ValueId scale = m.b.AddConstant("", TensorValue::FromNumbers(DType::Float(32), {3}, {1e-20, 1e-20, 1e-20}));
    const ValueId zero = numbers(0);
    BatchNormAttrs attrs;
    attrs.epsilon = 0;
    m.b.Output(
        m.b.Must(Op::kBatchNorm, {m.b.Input("x", F32({1, 3, 4, 4})), scale, zero, zero, numbers(variance)}, attrs),
        "y");
    Counting counting;
    const Graph g = FoldConstants(FoldBatchNorm(m.b.Finish(), counting.env).value(), counting.env).value();
    EXPECT_EQ(CountOps(g, Op::kDiv), variance == 1 ? 0 : 1) << GraphText(g);
  }
}

// (x + a) + b becomes x + (a + b), unless a + b could overflow where the sums with x do not.
TEST(FoldBatchNorm, JoinsAdditionsThatDoNotOverflow) {
  for (double number : {1e20, 3e38, HUGE_VAL}) {
    Maker m(33);
    const ValueId a = m.b.AddConstant("", TensorValue::FromNumbers(DType::Float(32), {}, {number}));
    m.b.Output(m.b.Must(Op::kAdd, {m.b.Must(Op::kAdd, {m.b.Input("x", F32({4})), a}), m.Random({4})}), "y");
    Counting counting;
    const Graph g = FoldConstants(FoldBatchNorm(m.b.Finish(), counting.env).value(), counting.env).value();
    EXPECT_EQ(CountOps(g, Op::kAdd), number < 1e30 ? 1 : 2) << GraphText(g);
  }
}

TEST(FoldBatchNorm, NotWhereTheProductIsReadElsewhere) {
  Maker m(3);
  ValueId x = m.b.Input("x", F32({1, 3, 4, 4}));
  ValueId conv = m.Conv(x, 3, 1);
  m.b.Output(m.b.Must(Op::kAdd, {m.Norm(conv), conv}), "y");
  Counting counting;
  Graph g =
      ExpectKept(m.b.Finish(), {{"fold_batch_norm", FoldBatchNorm}, {"fold_constants", FoldConstants}}, counting.env);
  EXPECT_EQ(CountOps(g, Op::kMul), 1);
  EXPECT_EQ(CountOps(g, Op::kConv2d), 1);
  EXPECT_EQ(CountOps(g, Op::kBatchNorm), 0);
}

TEST(FoldBatchNorm, NotWherePerChannelMeansAnotherAxis) {
  Maker m(4);
  ValueId x = m.b.Input("x", F32({1, 3, 4, 4}));
  m.b.Output(m.b.Must(Op::kMul, {m.Conv(x, 4, 1), m.Random({4})}), "per_column");
  m.b.Output(m.b.Must(Op::kMul, {m.Conv(x, 4, 1), m.Random({1})}), "scalar");
  Counting counting;
  Graph g =
      ExpectKept(m.b.Finish(), {{"fold_batch_norm", FoldBatchNorm}, {"fold_constants", FoldConstants}}, counting.env);
  EXPECT_EQ(CountOps(g, Op::kMul), 1);
}

TEST(FoldBatchNorm, StatisticsThatAreInputs) {
  Maker m(5);
  ValueId x = m.b.Input("x", F32({2, 3, 2, 2})), mean = m.b.Input("mean", F32({3}));
  m.b.Output(m.b.Must(Op::kBatchNorm, {x, m.Random({3}), m.Random({3}), mean, m.Positive({3})}, BatchNormAttrs{}), "y");
  Counting counting;
  Graph g =
      ExpectKept(m.b.Finish(), {{"fold_batch_norm", FoldBatchNorm}, {"fold_constants", FoldConstants}}, counting.env);
  EXPECT_EQ(CountOps(g, Op::kBatchNorm), 0);
}

TEST(FoldConstants, WithoutEvaluatorNothingHappens) {
  Maker m(6);
  ValueId x = m.b.Input("x", F32({3}));
  m.b.Output(m.b.Must(Op::kAdd, {x, m.b.Must(Op::kAdd, {m.Random({3}), m.Random({3})})}), "y");
  Graph g = m.b.Finish();
  PassEnv env;
  EXPECT_EQ(FoldConstants(g, env)->nodes.size(), 2u);
  Counting counting;
  EXPECT_EQ(FoldConstants(g, counting.env)->nodes.size(), 1u);
  counting.env.evaluate = [](const Graph&) -> Result<std::vector<TensorValue>> { return Err("no compiler"); };
  EXPECT_EQ(FoldConstants(g, counting.env).error().Text(), "no compiler (while folding constants)");
}

TEST(FoldConstants, WholeGraph) {
  Maker m(7);
  m.b.Input("unused", F32({3}));
  m.b.Output(m.b.Must(Op::kRelu, {m.Random({3})}), "y");
  Counting counting;
  Graph g = ExpectKept(m.b.Finish(), {{"fold_constants", FoldConstants}}, counting.env);
  EXPECT_TRUE(g.nodes.empty());
  EXPECT_EQ(g.inputs.size(), 1u);
}

}  // namespace
}  // namespace autotune::graph
