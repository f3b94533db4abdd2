#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "graph/pass.h"
#include "tests/graph/maker.h"

namespace autotune::graph {
namespace {

constexpr Op kCounted[] = {Op::kConcat, Op::kConv2d, Op::kMatmul, Op::kMaxPool2d, Op::kRelu, Op::kAdd};
using Counts = std::map<Op, int>;

// Builds images [1,40,50,C] in NHWC, and nodes on them.
class Images : public Maker {
 public:
  using Maker::Maker;
  ValueId Image(int64_t channels) { return b.Input("x", F32({1, 40, 50, channels})); }
  ValueId Concat(const std::vector<ValueId>& parts, int64_t axis = 3) {
    return b.Must(Op::kConcat, parts, AxisAttrs{axis});
  }
  ValueId Convolve(ValueId x, int64_t channels, int64_t kernel = 1, int64_t groups = 1) {
    ConvAttrs attrs{.groups = groups, .layout = Layout::kNHWC};
    attrs.pads = {kernel / 2, kernel / 2, kernel / 2, kernel / 2};
    return b.Must(Op::kConv2d, {x, Random({kernel, kernel, b.Spec(x).shape[3] / groups, channels})}, attrs);
  }
  ValueId MaxPool(ValueId x) {
    return b.Must(Op::kMaxPool2d, {x},
                  PoolAttrs{.kernel = {3, 3}, .strides = {2, 2}, .pads = {0, 0, 1, 1}, .layout = Layout::kNHWC});
  }
  // Ends the graph, splits its concatenations, and checks that it computes the same. Returns the new graph.
  Graph Split(const std::vector<ValueId>& outputs) {
    for (ValueId v : outputs) b.Output(v, "y" + std::to_string(v));
    return ExpectKept(b.Finish(), {{"split_concat", SplitConcats}, {"fold_constants", FoldConstants}}, Counting().env);
  }
};

Counts CountsOf(const Graph& g) {
  Counts counts;
  for (Op op : kCounted) {
    if (int n = CountOps(g, op); n > 0) counts[op] = n;
  }
  return counts;
}

TEST(SplitConcats, PartsAreMultipliedAndAdded) {
  for (int64_t kernel : {1, 3}) {
    Images m(1);
    ValueId x = m.Concat({m.Image(7), m.Image(1), m.Image(16)});
    Graph g = m.Split({m.Convolve(x, 1, kernel)});
    EXPECT_EQ(CountsOf(g), (Counts{{Op::kConv2d, 3}, {Op::kAdd, 2}})) << GraphText(g);
  }
  Images m(2);
  ValueId x = m.Concat({m.b.Input("a", F32({2000, 10})), m.b.Input("b", F32({2000, 14}))}, 1);
  Graph g = m.Split({m.b.Must(Op::kMatmul, {x, m.Random({24, 4})})});
  EXPECT_EQ(CountsOf(g), (Counts{{Op::kMatmul, 2}, {Op::kAdd, 1}})) << GraphText(g);
}

TEST(SplitConcats, PoolsAndElementwiseOperatorsComeFirst) {
  Images m(3);
  ValueId x = m.MaxPool(m.Relu(m.Concat({m.Image(16), m.Image(16)})));
  Graph g = m.Split({m.Convolve(x, 2)});
  EXPECT_EQ(CountsOf(g), (Counts{{Op::kConv2d, 2}, {Op::kAdd, 1}, {Op::kMaxPool2d, 2}, {Op::kRelu, 2}}))
      << GraphText(g);
}

TEST(SplitConcats, AllReadersMustBeProducts) {
  const Counts two{{Op::kConv2d, 4}, {Op::kAdd, 2}}, kept{{Op::kConv2d, 2}, {Op::kConcat, 1}};
  for (bool output : {false, true}) {
    Images m(4);
    ValueId x = m.Concat({m.Image(16), m.Image(16)});
    std::vector<ValueId> outputs = {m.Convolve(x, 2), m.Convolve(x, 2, 3)};
    if (output) outputs.push_back(x);
    Graph g = m.Split(outputs);
    EXPECT_EQ(CountsOf(g), output ? kept : two) << GraphText(g);
  }
}

// The partial sums and the further kernels must cost at most a quarter of the concatenation.
TEST(SplitConcats, OnlyIfSumsAreSmall) {
  for (int64_t channels : {8, 9}) {
    Images m(5);
    Graph g = m.Split({m.Convolve(m.Concat({m.Image(20), m.Image(12)}), channels)});
    EXPECT_EQ(CountOps(g, Op::kConcat), channels > 8) << GraphText(g);
  }
  for (int64_t channels : {4, 5}) {  // three parts have two partial sums
    Images m(6);
    Graph g = m.Split({m.Convolve(m.Concat({m.Image(10), m.Image(12), m.Image(10)}), channels - 2)});
    EXPECT_EQ(CountOps(g, Op::kConcat), channels > 4) << GraphText(g);
  }
}

// A kernel for each of many small parts would take longer than the copy.
TEST(SplitConcats, NotForManySmallParts) {
  for (int64_t rows : {1, 2000}) {
    Images m(9);
    std::vector<ValueId> parts;
    for (int i = 0; i < 8; ++i) parts.push_back(m.b.Input("x", F32({rows, 16})));
    Graph g = m.Split({m.b.Must(Op::kMatmul, {m.Concat(parts, 1), m.Random({128, 1})})});
    EXPECT_EQ(CountOps(g, Op::kConcat), rows == 1) << GraphText(g);
  }
}

TEST(SplitConcats, OtherConcatenationsStay) {
  struct Case {
    const char* name;
    std::function<ValueId(Images&)> output;
  };
  const Case cases[] = {
      {"rows",
       [](Images& m) {
         return m.Convolve(m.Concat({m.Image(16), m.Image(16)}, 1), 2);
       }},
      {"groups",
       [](Images& m) {
         return m.Convolve(m.Concat({m.Image(16), m.Image(16)}), 2, 1, 2);
       }},
      {"computed weights",
       [](Images& m) {
         ValueId x = m.Concat({m.b.Input("a", F32({9, 10})), m.b.Input("b", F32({9, 14}))}, 1);
         return m.b.Must(Op::kMatmul, {x, m.b.Input("w", F32({24, 2}))});
       }},
      {"weights",
       [](Images& m) {
         ValueId w = m.Concat({m.b.Input("a", F32({9, 10})), m.b.Input("b", F32({9, 14}))}, 1);
         return m.b.Must(Op::kMatmul, {m.Random({1, 9}), w});
       }},
      {"softmax",
       [](Images& m) {
         return m.Convolve(m.b.Must(Op::kSoftmax, {m.Concat({m.Image(16), m.Image(16)})}, AxisAttrs{3}), 2);
       }},
      {"added",
       [](Images& m) {
         return m.Convolve(m.b.Must(Op::kAdd, {m.Concat({m.Image(16), m.Image(16)}), m.Image(32)}), 2);
       }},
      {"output",
       [](Images& m) {
         return m.Concat({m.Image(16), m.Image(16)});
       }},
  };
  for (const Case& c : cases) {
    Images m(7);
    Graph g = m.Split({c.output(m)});
    EXPECT_EQ(CountOps(g, Op::kConcat), 1) << c.name << GraphText(g);
  }
}

// Products of floats of 16 bits are f32, so their partial sums are not rounded, but have twice the bytes.
TEST(SplitConcats, TrafficIsCountedInBytes) {
  for (const DType dtype : {DType::Float(16), DType::Float(32)}) {
    GraphBuilder b;
    ValueId x =
        b.Must(Op::kConcat, {b.Input("a", {dtype, {4000, 16}}), b.Input("b", {dtype, {4000, 16}})}, AxisAttrs{1});
    Rng rng(8);
    reference::Tensor w = reference::Random({32, 8}, rng, DType::Int(32));
    w.dtype = dtype;
    b.Output(b.Must(Op::kMatmul, {x, b.AddConstant("", reference::ToValue(w))}), "y");
    const Graph g = b.Finish();
    EXPECT_EQ(g.Spec(g.outputs[0]).dtype, DType::Float(32));
    EXPECT_EQ(CountOps(*SplitConcats(g, {}), Op::kConcat), dtype.IsHalf());
  }
}

}  // namespace
}  // namespace autotune::graph
