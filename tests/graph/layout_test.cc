#include "graph/pass.h"

#include <gtest/gtest.h>

#include "tests/graph/maker.h"

namespace autotune::graph {
namespace {

TEST(ConvertLayout, OnlyTheEdgesTranspose) {
  Maker m(9);
  ValueId x = m.b.Input("x", F32({1, 4, 8, 8}));
  ValueId a = m.Relu(m.b.Must(Op::kAdd, {m.Conv(x, 8, 3), m.Random({1, 8, 1, 1})}));
  ValueId b = m.Pool(Op::kMaxPool2d, m.Conv(a, 8, 1), 3, 1);
  ValueId c = m.b.Must(Op::kConcat, {m.b.Must(Op::kAdd, {a, b}), a}, AxisAttrs{1});
  ValueId d = m.b.Must(Op::kLrn, {m.Pool(Op::kAvgPool2d, c, 3, 2)}, LrnAttrs{5, 0.1f, 0.75f, 1, 1});
  m.b.Output(m.b.Must(Op::kMul, {d, m.Random({5, 1})}), "y");
  Counting counting;
  Graph g =
      ExpectKept(m.b.Finish(), {{"convert_layout", ConvertLayout}, {"fold_constants", FoldConstants}}, counting.env);
  EXPECT_EQ(CountOps(g, Op::kTranspose), 2) << GraphText(g);
  for (const Node& node : g.nodes) {
    if (node.op == Op::kConv2d) {
      EXPECT_EQ(std::get<ConvAttrs>(node.attrs).layout, Layout::kNHWC);
    }
    if (node.op == Op::kConcat) {
      EXPECT_EQ(std::get<AxisAttrs>(node.attrs).axis, 3);
    }
  }
}

// A convolution with few output channels stays NCHW, and is vectorized over the pixels of a row: the channels are too
// few for a vector.
TEST(ConvertLayout, FewChannelsStayFirst) {
  auto transposes = [](int64_t channels, int64_t width, int64_t groups, int64_t stride, bool behind_another) {
    Maker m(24);
    ValueId x = m.b.Input("x", F32({1, 4, 6, width}));
    if (behind_another) x = m.Relu(m.Conv(x, 16, 3));
    m.b.Output(m.Relu(m.Conv(x, channels, 3, groups, stride)), "y");
    Counting counting;
    Graph g =
        ExpectKept(m.b.Finish(), {{"convert_layout", ConvertLayout}, {"fold_constants", FoldConstants}}, counting.env);
    return CountOps(g, Op::kTranspose);
  };
  EXPECT_EQ(transposes(2, 16, 1, 1, false), 0);
  EXPECT_EQ(transposes(4, 16, 1, 1, false), 0);
  EXPECT_EQ(transposes(5, 16, 1, 1, false), 2) << "five channels suffice for a vector";
  EXPECT_EQ(transposes(4, 15, 1, 1, false), 2) << "a row of 15 pixels does not fill vectors";
  EXPECT_EQ(transposes(4, 16, 2, 1, false), 2) << "convolutions with groups become NHWC";
  EXPECT_EQ(transposes(4, 40, 1, 2, false), 2) << "with a stride of 2, the lanes of a vector are apart";
  EXPECT_EQ(transposes(4, 16, 1, 1, true), 2) << "the image is NHWC already";
}

TEST(ConvertLayout, PoolsWithoutPaddingStayChannelsFirst) {
  auto transposes = [](Op op, PoolAttrs a, bool behind_another) {
    Maker m(25);
    ValueId x = m.b.Input("x", F32({1, 8, 9, 24}));
    if (behind_another) x = m.Relu(m.Conv(x, 16, 3));
    m.b.Output(m.b.Must(op, {x}, a), "y");
    Counting counting;
    Graph g =
        ExpectKept(m.b.Finish(), {{"convert_layout", ConvertLayout}, {"fold_constants", FoldConstants}}, counting.env);
    return CountOps(g, Op::kTranspose);
  };
  const PoolAttrs plain{.kernel = {2, 3}, .strides = {2, 1}};
  PoolAttrs padded = plain, strided = plain, rounded = plain;
  padded.pads = {0, 1, 0, 1};
  strided.strides = {1, 2};
  rounded.ceil_mode = true;
  for (Op op : {Op::kMaxPool2d, Op::kAvgPool2d}) {
    EXPECT_EQ(transposes(op, plain, false), 0);
    EXPECT_EQ(transposes(op, padded, false), 2);
    EXPECT_EQ(transposes(op, strided, false), 2);
    EXPECT_EQ(transposes(op, rounded, false), 2);
    EXPECT_EQ(transposes(op, plain, true), 2) << "the image is NHWC already";
  }
  EXPECT_EQ(transposes(Op::kArgMaxPool, plain, false), 2);
}

// Each output is transposed right after its computation, before the next output is computed. So the intermediate values
// of the outputs can share memory.
TEST(ConvertLayout, OutputsAreConvertedAtOnce) {
  Maker m(22);
  ValueId x = m.b.Input("x", F32({1, 4, 6, 6}));
  m.b.Output(m.Relu(m.Conv(x, 5, 3)), "y");
  m.b.Output(m.Relu(m.Conv(x, 7, 3)), "z");
  Counting counting;
  Graph g =
      ExpectKept(m.b.Finish(), {{"convert_layout", ConvertLayout}, {"fold_constants", FoldConstants}}, counting.env);
  std::vector<Op> order;
  for (const Node& node : g.nodes) order.push_back(node.op);
  EXPECT_EQ(order, (std::vector<Op>{Op::kTranspose, Op::kConv2d, Op::kRelu, Op::kTranspose, Op::kConv2d, Op::kRelu,
                                    Op::kTranspose}))
      << GraphText(g);
}

TEST(ConvertLayout, FlattenKeepsOnnxOrder) {
  for (int64_t extent : {1, 3}) {
    Maker m(10);
    ValueId x = m.b.Input("x", F32({2, 4, extent, extent}));
    ValueId y = m.Conv(x, 8, 1);
    int64_t columns = 8 * extent * extent;
    m.b.Output(m.b.Must(Op::kMatmul, {m.b.Reshape(y, {2, columns}), m.Random({columns, 3})}), "y");
    Counting counting;
    Graph g = ExpectKept(
        m.b.Finish(),
        {{"convert_layout", ConvertLayout}, {"simplify_graph", SimplifyGraph}, {"fold_constants", FoldConstants}},
        counting.env);
    EXPECT_EQ(CountOps(g, Op::kTranspose), extent == 1 ? 0 : 2);
  }
}

TEST(ConvertLayout, TheModelsOwnTransposesCancel) {
  Maker m(11);
  ValueId x = m.b.Input("x", F32({1, 8, 8, 3}));
  ValueId y = m.Conv(m.b.Transpose(x, {0, 3, 1, 2}), 4, 3);
  m.b.Output(m.b.Transpose(m.Relu(y), {0, 2, 3, 1}), "y");
  Counting counting;
  Graph g =
      ExpectKept(m.b.Finish(), {{"convert_layout", ConvertLayout}, {"fold_constants", FoldConstants}}, counting.env);
  EXPECT_EQ(CountOps(g, Op::kTranspose), 0) << GraphText(g);
}

TEST(ConvertLayout, FollowsSlicesPadsReductionsAndGathers) {
  Maker m(23);
  ValueId x = m.Conv(m.b.Input("x", F32({1, 4, 6, 5})), 8, 3);
  ValueId y = m.b.Must(Op::kSlice, {x}, SliceAttrs{{0, 2, 0, 1}, {1, 4, 3, 4}, {1, 1, 2, 1}});
  y = m.b.Must(Op::kPad, {y}, PadAttrs{{0, 0, 1, 2}, {0, 1, 0, 0}, {0, 0, 0, 0}, PadMode::kConstant, 0.5});
  y = m.b.Must(Op::kSub, {y, m.b.Must(Op::kReduceMax, {y}, AxesAttrs{{1, 3}})});
  ValueId places = m.b.AddConstant("", TensorValue::Of<int64_t>({3}, {2, 0, 1}));
  y = m.b.Must(Op::kGather, {y, places}, AxisAttrs{2});
  m.b.Output(m.Conv(y, 4, 1), "y");
  PassEnv env;
  Graph g = ExpectKept(m.b.Finish(), {{"convert_layout", ConvertLayout}}, env);
  int activations = 0;
  for (const Node& node : g.nodes) activations += node.op == Op::kTranspose && !g.FindConstant(node.inputs[0]);
  EXPECT_EQ(activations, 2) << GraphText(g);  // one transpose for the input and one for the output
}

// Images of three dimensions, together with values of the same and of lower rank.
TEST(ConvertLayout, OfThreeDimensions) {
  Maker m(24);
  ValueId x = m.b.Input("x", F32({1, 4, 3, 6, 5}));
  ConvAttrs conv{{1, 1, 1}, {1, 1, 1, 1, 1, 1}, {1, 1, 1}, 1, Layout::kNCHW};
  ValueId y = m.b.Must(Op::kConv3d, {x, m.Random({8, 4, 3, 3, 3})}, conv);
  y = m.Relu(m.b.Must(Op::kAdd, {y, m.Random({1, 8, 1, 1, 1})}));
  PoolAttrs pool{{2, 2, 2}, {1, 2, 1}, Shape(6, 0), {1, 1, 1}, false, false, Layout::kNCHW};
  ValueId top = m.b.Must(Op::kMaxPool3d, {y}, pool), mean = m.b.Must(Op::kAvgPool3d, {y}, pool);
  ValueId place = m.b.Must(Op::kCast, {m.b.Must(Op::kArgMaxPool, {y}, pool)}, CastAttrs{DType::Float(32)});
  y = m.b.Must(Op::kConcat, {top, mean, place}, AxisAttrs{1});
  y = m.b.Must(Op::kSub, {y, m.b.Must(Op::kReduceMax, {y}, AxesAttrs{{1, 3}})});
  y = m.b.Must(Op::kSlice, {y}, SliceAttrs{{0, 1, 0, 1, 0}, {1, 9, 2, 2, 2}, {1, 2, 1, 1, 2}});
  m.b.Output(m.b.Must(Op::kMul, {y, m.Random({2, 1, 1})}), "y");
  Counting counting;
  Graph g =
      ExpectKept(m.b.Finish(), {{"convert_layout", ConvertLayout}, {"fold_constants", FoldConstants}}, counting.env);
  EXPECT_EQ(CountOps(g, Op::kTranspose), 2) << GraphText(g);
}

// A 2-D image that broadcasts to rank 5 must not be taken for a 3-D image.
TEST(ConvertLayout, AnImageAmongHigherRanks) {
  Maker m(25);
  ValueId y = m.Conv(m.b.Input("x", F32({2, 4, 3, 5})), 3, 1), z = m.b.Input("z", F32({2, 1, 3, 3, 5}));
  m.b.Output(m.b.Must(Op::kAdd, {y, z}), "sum");
  PassEnv env;
  ExpectKept(m.b.Finish(), {{"convert_layout", ConvertLayout}}, env);
}

}  // namespace
}  // namespace autotune::graph
