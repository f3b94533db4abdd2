#include "graph/graph.h"

#include <gtest/gtest.h>

#include "tests/graph/maker.h"

namespace autotune::graph {
namespace {

TEST(OpTable, RowsStandInOrder) {
  for (int i = 0; i < kNumOps; ++i) EXPECT_EQ(GetOpInfo(static_cast<Op>(i)).op, static_cast<Op>(i));
}

TEST(InferType, Conv2d) {
  ConvAttrs a;
  a.strides = {2, 2};
  a.pads = {3, 3, 3, 3};
  EXPECT_EQ(InferType(Op::kConv2d, a, {F32({1, 3, 224, 224}), F32({64, 3, 7, 7})})->shape, (Shape{1, 64, 112, 112}));
  a.layout = Layout::kNHWC;
  EXPECT_EQ(InferType(Op::kConv2d, a, {F32({1, 224, 224, 3}), F32({7, 7, 3, 64})})->shape, (Shape{1, 112, 112, 64}));
  EXPECT_FALSE(InferType(Op::kConv2d, a, {F32({1, 224, 224, 4}), F32({7, 7, 3, 64})}).ok());
  a.groups = 2;
  EXPECT_EQ(InferType(Op::kConv2d, a, {F32({1, 8, 8, 6}), F32({7, 7, 3, 4})})->shape, (Shape{1, 4, 4, 4}));
  EXPECT_FALSE(InferType(Op::kConv2d, a, {F32({1, 8, 8, 6}), F32({7, 7, 3, 5})}).ok());
  a.pads = {0, 0, 0, 0};
  EXPECT_FALSE(InferType(Op::kConv2d, a, {F32({1, 4, 4, 6}), F32({7, 7, 3, 4})}).ok());
  EXPECT_FALSE(InferType(Op::kConv2d, a, {F32({1, 8, 8, 6})}).ok());
}

TEST(InferType, Conv3d) {
  ConvAttrs a{{2, 1, 1}, {1, 0, 0, 1, 0, 2}, {1, 1, 2}, 1, Layout::kNCHW};
  TensorSpec x = F32({1, 4, 8, 9, 7});
  EXPECT_EQ(InferType(Op::kConv3d, a, {x, F32({6, 4, 3, 2, 3})})->shape, (Shape{1, 6, 4, 8, 5}));
  EXPECT_FALSE(InferType(Op::kConv3d, ConvAttrs{}, {x, F32({6, 4, 3, 2, 3})}).ok());
  EXPECT_FALSE(InferType(Op::kConv2d, a, {x, F32({6, 4, 3, 2, 3})}).ok());
  EXPECT_FALSE(InferType(Op::kConv3d, a, {x, F32({6, 4, 3, 2})}).ok());
  a.layout = Layout::kNHWC;
  EXPECT_EQ(InferType(Op::kConv3d, a, {F32({1, 8, 9, 7, 4}), F32({3, 2, 3, 4, 6})})->shape, (Shape{1, 4, 8, 5, 6}));
}

TEST(InferType, PoolsOfThreeDimensionsAndPlaces) {
  PoolAttrs a{{2, 2, 3}, {2, 2, 2}, {0, 0, 1, 0, 0, 1}, {1, 1, 1}, false, false, Layout::kNCHW};
  for (Op op : {Op::kMaxPool3d, Op::kAvgPool3d, Op::kArgMaxPool}) {
    EXPECT_EQ(InferType(op, a, {F32({1, 3, 4, 6, 5})})->shape, (Shape{1, 3, 2, 3, 3}));
    EXPECT_FALSE(InferType(op, a, {F32({1, 3, 6, 5})}).ok());
  }
  EXPECT_EQ(InferType(Op::kArgMaxPool, PoolAttrs{}, {F32({1, 3, 6, 5})})->dtype, DType::Int(64));
  EXPECT_FALSE(InferType(Op::kMaxPool2d, a, {F32({1, 3, 4, 6, 5})}).ok());
  EXPECT_FALSE(InferType(Op::kArgMaxPool, PoolAttrs{.kernel = {2}}, {F32({1, 3, 6})}).ok());
}

TEST(InferType, Pool2dRoundsUpOnlyWithCeilMode) {
  PoolAttrs a;
  a.kernel = {3, 3};
  a.strides = {2, 2};
  EXPECT_EQ(InferType(Op::kMaxPool2d, a, {F32({1, 1, 6, 6})})->shape, (Shape{1, 1, 2, 2}));
  a.ceil_mode = true;
  EXPECT_EQ(InferType(Op::kMaxPool2d, a, {F32({1, 1, 6, 6})})->shape, (Shape{1, 1, 3, 3}));
  a.pads = {3, 3, 3, 3};
  EXPECT_FALSE(InferType(Op::kMaxPool2d, a, {F32({1, 1, 6, 6})}).ok());
}

TEST(InferType, BroadcastAndMatmul) {
  EXPECT_EQ(*BroadcastShapes({1, 64, 56, 56}, {64, 1, 1}), (Shape{1, 64, 56, 56}));
  EXPECT_EQ(*BroadcastShapes({}, {2, 3}), (Shape{2, 3}));
  EXPECT_FALSE(BroadcastShapes({2, 3}, {2}).ok());
  EXPECT_EQ(InferType(Op::kMatmul, {}, {F32({2, 3}), F32({3, 4})})->shape, (Shape{2, 4}));
  EXPECT_FALSE(InferType(Op::kMatmul, {}, {F32({2, 3}), F32({2, 4})}).ok());
  EXPECT_EQ(InferType(Op::kBatchMatmul, {}, {F32({5, 1, 2, 3}), F32({1, 7, 3, 4})})->shape, (Shape{5, 7, 2, 4}));
  EXPECT_FALSE(InferType(Op::kBatchMatmul, {}, {F32({5, 2, 3}), F32({4, 3, 4})}).ok());
}

TEST(InferType, MovementOfData) {
  EXPECT_EQ(InferType(Op::kConcat, AxisAttrs{1}, {F32({1, 2}), F32({1, 3})})->shape, (Shape{1, 5}));
  EXPECT_FALSE(InferType(Op::kConcat, AxisAttrs{0}, {F32({1, 2}), F32({1, 3})}).ok());
  EXPECT_EQ(InferType(Op::kTranspose, TransposeAttrs{{2, 0, 1}}, {F32({5, 6, 7})})->shape, (Shape{7, 5, 6}));
  EXPECT_FALSE(InferType(Op::kTranspose, TransposeAttrs{{2, 0, 0}}, {F32({5, 6, 7})}).ok());
  EXPECT_FALSE(InferType(Op::kReshape, ReshapeAttrs{{5, 5}}, {F32({5, 6})}).ok());
}

Graph SmallConv() {
  GraphBuilder b;
  ValueId x = b.Input("x", F32({1, 2, 4, 4}));
  ValueId w = b.AddConstant("w", TensorValue::Of<float>({3, 2, 1, 1}, {1, 2, 3, 4, 5, 6}));
  ValueId y = b.Must(Op::kConv2d, {x, w}, ConvAttrs{}, "conv");
  b.Output(b.Must(Op::kRelu, {y}), "y");
  return b.Finish();
}

TEST(Graph, Text) {
  std::string text = GraphText(SmallConv());
  EXPECT_NE(text.find("%0 = input f32[1,2,4,4]  # x\n"), std::string::npos) << text;
  EXPECT_NE(text.find("conv2d(%0, %1) {strides=[1,1], pads=[0,0,0,0], dilations=[1,1], groups=1, layout=NCHW} : "
                      "f32[1,3,4,4]  # conv\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("output %3  # y\n"), std::string::npos) << text;
}

TEST(Graph, CheckSeesBrokenOnes) {
  Graph good = SmallConv();
  EXPECT_TRUE(CheckGraph(good).ok());
  Graph bad = good;
  std::swap(bad.nodes[0], bad.nodes[1]);
  EXPECT_FALSE(CheckGraph(bad).ok());
  bad = good;
  bad.values[bad.nodes[0].output].spec.shape[1] = 4;
  EXPECT_FALSE(CheckGraph(bad).ok());
  bad = good;
  bad.nodes[1].inputs[0] = bad.nodes[1].output;
  EXPECT_FALSE(CheckGraph(bad).ok());
  bad = good;
  bad.outputs[0] = 77;
  EXPECT_FALSE(CheckGraph(bad).ok());
}

TEST(Graph, BuilderDropsMovementThatMovesNothing) {
  GraphBuilder b;
  ValueId x = b.Input("x", F32({1, 8, 1, 1}));
  EXPECT_EQ(b.Transpose(x, {0, 1, 2, 3}), x);
  ValueId t = b.Transpose(x, {0, 2, 3, 1});
  EXPECT_EQ(b.graph().Producer(t)->op, Op::kReshape);
  ValueId wide = b.Input("wide", F32({1, 8, 2, 1}));
  EXPECT_EQ(b.graph().Producer(b.Transpose(wide, {0, 2, 3, 1}))->op, Op::kTranspose);
  ValueId c = b.AddConstant("c", TensorValue::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  EXPECT_NE(b.graph().FindConstant(b.Reshape(c, {6})), nullptr);
}

// Checks the reference itself against numbers worked out by hand.
TEST(Reference, AgreesWithPaper) {
  GraphBuilder b;
  ValueId x = b.Input("x", F32({1, 1, 3, 3}));
  ValueId w = b.AddConstant("w", TensorValue::Of<float>({1, 1, 2, 2}, {1, 0, 0, 2}));
  ConvAttrs conv;
  conv.pads = {1, 1, 0, 0};
  b.Output(b.Must(Op::kConv2d, {x, w}, conv), "conv");
  PoolAttrs pool;
  pool.kernel = {2, 2};
  pool.strides = {2, 2};
  pool.ceil_mode = true;
  b.Output(b.Must(Op::kAvgPool2d, {x}, pool), "avg");
  b.Output(b.Must(Op::kSoftmax, {b.Reshape(x, {3, 3})}, AxisAttrs{0}), "softmax");
  auto out = reference::Evaluate(b.Finish(), {{{1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}}});
  EXPECT_EQ(out[0].data, (std::vector<double>{2, 4, 6, 8, 11, 14, 14, 20, 23}));
  EXPECT_EQ(out[1].data, (std::vector<double>{3, 4.5, 7.5, 9}));
  EXPECT_NEAR(out[2].data[0] + out[2].data[3] + out[2].data[6], 1, 1e-12);
  EXPECT_NEAR(out[2].data[3] / out[2].data[0], std::exp(3), 1e-9);
}

}  // namespace
}  // namespace autotune::graph
