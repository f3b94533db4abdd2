// Views and maxima of dequantized numbers as views of bytes: every number stays, and only what can join the kernels of
// its readers moves.
#include <gtest/gtest.h>

#include <functional>

#include "graph/pass.h"
#include "tests/graph/quantizer.h"

namespace autotune::graph {
namespace {

const Shape kImage = {1, 8, 10, 4};

using Build = std::function<ValueId(Quantizer&, ValueId)>;  // from a dequantized image to the output

Graph Made(const Build& build, const ByteScale& s = {}) {
  Quantizer m(3);
  m.b.Output(build(m, m.Input("x", kImage, s)), "y");
  return m.b.Finish();
}

Graph Rewritten(const Graph& g) {
  const Graph now = *QuantizedViewsOfKernels(g, {});
  ExpectEqualOutputs(g, now);
  return now;
}

// Returns whether the only operator of this kind reads bytes after the pass.
bool ReadsBytes(Op op, const Build& build, const ByteScale& s = {}) {
  const Graph now = Rewritten(Made(build, s));
  for (const Node& node : now.nodes)
    if (node.op == op) return now.Spec(node.inputs[0]).dtype.bits == 8;
  ADD_FAILURE() << GraphText(now);
  return false;
}

Attrs PoolOf(int64_t kernel, int64_t pad, bool ceil_mode = false) {
  PoolAttrs pool{.kernel = {kernel, kernel}, .strides = {2, 2}, .pads = Shape(4, pad), .ceil_mode = ceil_mode};
  pool.layout = Layout::kNHWC;
  return pool;
}

ValueId Relu(Quantizer& m, ValueId x) { return m.Relu(x); }

Build Then(Op op, Attrs attrs, const Build& after = Relu) {
  return [=](Quantizer& m, ValueId x) { return after(m, m.b.Must(op, {x}, attrs)); };
}

const Attrs kTransposed = TransposeAttrs{{0, 3, 1, 2}};

TEST(QuantizedViews, ViewsReadBytes) {
  EXPECT_TRUE(ReadsBytes(Op::kTranspose, Then(Op::kTranspose, kTransposed)));
  EXPECT_TRUE(ReadsBytes(Op::kReshape, Then(Op::kReshape, ReshapeAttrs{{80, 4}})));
  EXPECT_TRUE(ReadsBytes(Op::kSlice, Then(Op::kSlice, SliceAttrs{{0, 1, 2, 0}, {1, 3, 4, 4}, {1, 2, 1, 1}})));
  EXPECT_TRUE(ReadsBytes(Op::kMaxPool2d, Then(Op::kMaxPool2d, PoolOf(3, 1))));
  EXPECT_TRUE(ReadsBytes(Op::kMaxPool2d, Then(Op::kMaxPool2d, PoolOf(3, 1)), {0.25, -3, DType::Int(8)}));
  EXPECT_TRUE(ReadsBytes(Op::kTranspose, Then(Op::kTranspose, kTransposed, [](Quantizer& m, ValueId x) {
                           return m.b.Must(Op::kReduceSum, {x}, AxesAttrs{{3}});
                         })));
  EXPECT_TRUE(ReadsBytes(Op::kTranspose, Then(Op::kTranspose, kTransposed, Then(Op::kReshape, ReshapeAttrs{{4, 80}}))))
      << "through another view";
}

// A transpose takes in the arithmetic before it, unless a product reads it in place.
TEST(QuantizedViews, ReshapesBeforeTransposesReadBytes) {
  const auto reshape = [](const Build& after) { return Then(Op::kReshape, ReshapeAttrs{{80, 4}}, after); };
  const auto transpose = [](const Build& after) { return Then(Op::kTranspose, TransposeAttrs{{1, 0}}, after); };
  const Build softmax = Then(Op::kSoftmax, AxisAttrs{1});
  EXPECT_TRUE(ReadsBytes(Op::kReshape, reshape(transpose(softmax))));
  EXPECT_FALSE(ReadsBytes(Op::kReshape, reshape(softmax))) << "a softmax is no transpose";
  const Build product = [](Quantizer& m, ValueId x) { return m.b.Must(Op::kMatmul, {x, m.Random({80, 3})}); };
  EXPECT_FALSE(ReadsBytes(Op::kReshape, reshape(transpose(product))));
  EXPECT_FALSE(
      ReadsBytes(Op::kReshape, reshape(transpose(Then(Op::kSlice, SliceAttrs{{0, 0}, {3, 80}, {1, 1}}, product)))))
      << "a product reads a view of it";
  const Build twice = [&](Quantizer& m, ValueId x) {
    return m.b.Must(Op::kMatmul, {x, softmax(m, m.b.Transpose(x, {1, 0}))});
  };
  EXPECT_FALSE(ReadsBytes(Op::kReshape, reshape(twice))) << "another node reads it, too";
  const Graph first = *QuantizedViews(Made(reshape(transpose(softmax))), {});
  for (const Node& node : first.nodes)
    if (node.op == Op::kReshape)
      EXPECT_EQ(first.Spec(node.output).dtype, DType::Float(32)) << "later passes join views";
}

TEST(QuantizedViews, OthersReadFloats) {
  const Build product = [](Quantizer& m, ValueId x) {
    return m.b.Must(Op::kMatmul, {m.b.Must(Op::kReshape, {x}, ReshapeAttrs{{80, 4}}), m.Random({4, 3})});
  };
  EXPECT_FALSE(ReadsBytes(Op::kReshape, product)) << "a product cannot take in the dequantization";
  const Build itself = [](Quantizer&, ValueId x) { return x; };
  EXPECT_FALSE(ReadsBytes(Op::kTranspose, Then(Op::kTranspose, kTransposed, itself))) << "the view is an output";
  EXPECT_FALSE(ReadsBytes(Op::kMaxPool2d, Then(Op::kMaxPool2d, PoolOf(3, 1)), {-0.5, 100})) << "the order is reversed";
  EXPECT_FALSE(ReadsBytes(Op::kMaxPool2d, Then(Op::kMaxPool2d, PoolOf(3, 1)), {0.5, -0x7fffff80}))
      << "differences wrap, so a larger byte may be a smaller number";
  EXPECT_FALSE(ReadsBytes(Op::kMaxPool2d, Then(Op::kMaxPool2d, PoolOf(2, 0, true)))) << "a window may be empty";
  const Build sum = [](Quantizer& m, ValueId x) {
    return m.Relu(m.b.Must(Op::kTranspose, {m.b.Must(Op::kAdd, {x, m.Number(1)})}, kTransposed));
  };
  EXPECT_FALSE(ReadsBytes(Op::kTranspose, sum)) << "these are no dequantized numbers";
  const Build weights = [](Quantizer& m, ValueId) {
    const ValueId bytes = m.b.AddConstant("", TensorValue::FromNumbers(DType::UInt(8), {2, 2}, {1, 2, 3, 4}));
    const ValueId moved = m.b.Must(Op::kReshape, {m.b.Transpose(bytes, {1, 0})}, ReshapeAttrs{{4, 1}});
    return m.Relu(m.b.Transpose(m.b.Must(Op::kReshape, {m.Dequantize(moved, {})}, ReshapeAttrs{{2, 2}}), {1, 0}));
  };
  Quantizer m(3);
  m.b.Output(weights(m, -1), "y");
  const Graph constant = m.b.Finish();
  EXPECT_EQ(GraphText(Rewritten(constant)), GraphText(constant)) << "constants are folded as they are";
}

// Returns how often the pass leaves numbers to be rounded that are quantized, viewed and quantized again.
int RoundingsOf(const ByteScale& first, const ByteScale& second) {
  Quantizer m(4);
  ValueId y = m.Dequantize(m.Quantize(m.b.Input("x", F32({6, 8})), first), first);
  y = m.Quantize(m.b.Transpose(y, {1, 0}), second);
  m.b.Output(m.Dequantize(y, second), "y");
  return CountOps(Rewritten(m.b.Finish()), Op::kRound);
}

// Returns whether the transpose of an image of floats gives bytes after the pass. `build`: what follows the transpose.
bool TransposesBytes(const Build& build) {
  Quantizer m(3);
  m.b.Output(build(m, m.b.Must(Op::kTranspose, {m.b.Input("x", F32(kImage))}, kTransposed)), "y");
  const Graph now = Rewritten(m.b.Finish());
  for (const Node& node : now.nodes)
    if (node.op == Op::kTranspose) return now.Spec(node.output).dtype.bits == 8;
  ADD_FAILURE() << GraphText(now);
  return false;
}

TEST(QuantizedViews, TransposesComeBehindQuantization) {
  for (const ByteScale& s : {ByteScale{}, ByteScale{0.25, -3, DType::Int(8)}})
    EXPECT_TRUE(TransposesBytes([&](Quantizer& m, ValueId x) { return m.Quantize(x, s); }));
  EXPECT_FALSE(TransposesBytes([](Quantizer& m, ValueId x) {
    m.b.Output(m.Relu(x), "other");
    return m.Quantize(x, {});
  })) << "another node reads the transpose";
  EXPECT_FALSE(TransposesBytes([](Quantizer& m, ValueId x) {
    const ValueId scales = m.Random({10});
    ValueId y = m.b.Must(Op::kRound, {m.b.Must(Op::kDiv, {x, scales})});
    y = m.b.Must(Op::kAdd, {y, m.Number(3)});
    y = m.b.Must(Op::kMin, {m.b.Must(Op::kMax, {y, m.Number(0)}), m.Number(255)});
    return m.b.Must(Op::kCast, {y}, CastAttrs{DType::UInt(8)});
  })) << "a scale for each column";
  EXPECT_FALSE(TransposesBytes([](Quantizer& m, ValueId x) { return m.Quantize(m.Relu(x), {}); }));
}

TEST(QuantizedViews, EqualScalesRoundOnce) {
  const DType i8 = DType::Int(8);
  EXPECT_EQ(RoundingsOf({0.3, 100}, {0.3, 100}), 1);
  EXPECT_EQ(RoundingsOf({0.3, 0, i8}, {0.3, 0, i8}), 1);
  EXPECT_EQ(RoundingsOf({0.3, 100}, {0.31, 100}), 2) << "another scale";
  EXPECT_EQ(RoundingsOf({0.3, 100}, {0.3, 101}), 2) << "another zero point";
  EXPECT_EQ(RoundingsOf({0.3, 100}, {0.3, 100, i8}), 2) << "another type";
  EXPECT_EQ(RoundingsOf({1e-39, 100}, {1e-39, 100}), 2) << "products may be denormal";
  EXPECT_EQ(RoundingsOf({2e36, 100}, {2e36, 100}), 2) << "products may be infinite";
}

}  // namespace
}  // namespace autotune::graph
