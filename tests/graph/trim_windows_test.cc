#include <gtest/gtest.h>

#include "graph/pass.h"
#include "graph/to_te.h"
#include "ir/interp.h"
#include "tests/graph/maker.h"

namespace autotune::graph {
namespace {

// Returns small random integers, whose sums are exact in any order.
reference::Tensor SmallNumbers(const Shape& shape, DType dtype, Rng& rng) {
  reference::Tensor t = reference::Random(shape, rng, DType::Int(32));
  t.dtype = dtype;
  return t;
}

struct Window {
  ConvAttrs attrs;
  Shape image, kernel;  // image: NHWC or NDHWC; kernel: HWIO or DHWIO
};

// Returns a graph of one convolution with random weights. If `zeros` is given, a Pad node before the convolution
// inserts zeros around and between the image's pixels.
Graph ConvolutionOf(const Window& w, DType dtype, const PadAttrs* zeros, Rng& rng) {
  GraphBuilder b;
  ValueId x = b.Input("x", {dtype, w.image});
  if (zeros) x = b.Must(Op::kPad, {x}, *zeros);
  const ValueId weight = b.AddConstant("w", reference::ToValue(SmallNumbers(w.kernel, dtype, rng)));
  b.Output(b.Must(w.attrs.strides.size() == 3 ? Op::kConv3d : Op::kConv2d, {x, weight}, w.attrs), "y");
  return b.Finish();
}

// Draws a convolution whose window fits into the padded image. Many windows are larger than the image without padding.
Window DrawWindow(Rng& rng, size_t dims) {
  while (true) {
    Window w{{Shape(), Shape(2 * dims), Shape(), 1 + static_cast<int64_t>(rng.Below(2)), Layout::kNHWC}, {1}, {}};
    bool fits = true;
    for (size_t d = 0; d < dims; ++d) {
      auto below = [&](uint64_t n) { return static_cast<int64_t>(rng.Below(n)); };
      const int64_t in = 1 + below(4), kernel = 1 + below(9), dilation = 1 + below(3), stride = 1 + below(3);
      w.image.push_back(in);
      w.kernel.push_back(kernel);
      w.attrs.strides.push_back(stride);
      w.attrs.dilations.push_back(dilation);
      w.attrs.pads[d] = below(static_cast<uint64_t>(dilation * kernel) + 2);
      w.attrs.pads[d + dims] = below(static_cast<uint64_t>(dilation * kernel) + 2);
      fits = fits && in + w.attrs.pads[d] + w.attrs.pads[d + dims] > dilation * (kernel - 1);
    }
    w.image.push_back(2 * w.attrs.groups);
    w.kernel.insert(w.kernel.end(), {2, 3 * w.attrs.groups});
    if (fits) return w;
  }
}

// Interprets the program of a graph with one kernel.
std::vector<double> Interpreted(const Graph& g, const reference::Tensor& x) {
  const Node& node = g.nodes.at(0);
  EXPECT_EQ(g.nodes.size(), 1u) << GraphText(g);
  EXPECT_EQ(node.op, Op::kFused);
  auto alternatives =
      LowerSubgraph(*node.body, *Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=2"));
  EXPECT_TRUE(alternatives.ok());
  std::vector<InterpArray> arrays = {{x.dtype, x.shape, x.data}};
  const reference::Tensor w = reference::FromValue(g.ConstantValue(*g.FindConstant(node.inputs.at(1))));
  arrays.push_back({w.dtype, w.shape, w.data});
  const Shape& out = g.Spec(node.output).shape;
  arrays.push_back({x.dtype, out, std::vector<double>(reference::Count(out))});
  EXPECT_TRUE(Interpret(alternatives->front().func, arrays).ok());
  return arrays.back().data;
}

int64_t TapsOf(const Graph& g) {
  for (const Node& node : g.nodes) {
    if (!std::holds_alternative<ConvAttrs>(node.attrs)) continue;
    const Shape& w = g.Spec(node.inputs[1]).shape;
    return reference::Count(Shape(w.begin(), w.end() - 2));
  }
  return 0;
}

// Counts for each dimension the taps that read data for some output, at least 1. Returns the product of the counts.
int64_t UsefulTaps(const Window& w, const Graph& g) {
  const Shape& out = g.Spec(g.outputs[0]).shape;
  int64_t useful = 1;
  for (size_t d = 0; d + 2 < w.kernel.size(); ++d) {
    int64_t met = 0;
    for (int64_t tap = 0; tap < w.kernel[d]; ++tap) {
      bool meets = false;
      for (int64_t o = 0; o < out[d + 1]; ++o) {
        const int64_t at = o * w.attrs.strides[d] + tap * w.attrs.dilations[d] - w.attrs.pads[d];
        meets = meets || (at >= 0 && at < w.image[d + 1]);
      }
      met += meets;
    }
    useful *= std::max<int64_t>(1, met);
  }
  return useful;
}

TEST(TrimWindows, RandomConvolutionsKeepEveryBit) {
  Rng rng(41);
  int trimmed = 0, least = 0, whole = 0;
  for (int i = 0; i < 400; ++i) {
    const DType dtype = i % 2 == 0 ? DType::Float(32) : DType::Int(32);
    const Window w = DrawWindow(rng, i % 5 == 0 ? 3 : 2);
    const Graph g = ConvolutionOf(w, dtype, nullptr, rng);
    const reference::Tensor x = SmallNumbers(w.image, dtype, rng);
    Counting counting;
    Result<IRModule> now = RunPasses(
        IRModule(g), {{"trim_windows", TrimWindows}, {"fold_constants", FoldConstants}, {"fuse", Fuse}}, counting.env);
    ASSERT_TRUE(now.ok());
    EXPECT_EQ(Interpreted(now->main(), x), reference::Evaluate(g, {x})[0].data)
        << GraphText(g) << GraphText(now->main());
    const Graph trim = *TrimWindows(g, counting.env);
    const int64_t before = TapsOf(g), after = TapsOf(trim), useful = UsefulTaps(w, g);
    EXPECT_GE(after, useful) << GraphText(trim);
    trimmed += after < before;
    least += after < before && after == useful;
    whole += useful == before;
    if (useful == before) {
      EXPECT_EQ(GraphText(trim), GraphText(g));
    }
  }
  EXPECT_GT(trimmed, 200);
  EXPECT_GT(least, 150);  // in other cases a gap between useful taps stays, or a pad would be negative
  EXPECT_GT(whole, 20);
}

TEST(TrimWindows, CutsBothEndsAndGaps) {
  Rng rng(42);
  PassEnv env;
  auto kernel = [&](const Window& w) {
    const Graph g = *TrimWindows(ConvolutionOf(w, DType::Float(32), nullptr, rng), env);
    return g.Spec(g.nodes.back().inputs[1]).shape;
  };
  // One column of data: each of the two outputs reads it with one of the ten taps.
  EXPECT_EQ(kernel({{{1, 1}, {0, 5, 0, 5}, {1, 1}, 1, Layout::kNHWC}, {1, 4, 1, 2}, {3, 10, 2, 3}}),
            (Shape{3, 2, 2, 3}));
  // With a stride of 2, every other tap reads data.
  EXPECT_EQ(kernel({{{1, 2}, {0, 4, 0, 4}, {1, 1}, 1, Layout::kNHWC}, {1, 4, 1, 2}, {3, 5, 2, 3}}),
            (Shape{3, 3, 2, 3}));
  // Every tap reads data for some output.
  EXPECT_EQ(kernel({{{1, 1}, {1, 1, 1, 1}, {1, 1}, 1, Layout::kNHWC}, {1, 4, 4, 2}, {3, 3, 2, 3}}),
            (Shape{3, 3, 2, 3}));
}

// An infinite weight that only multiplies padding has no effect (docs/operators.md).
TEST(TrimWindows, PaddingTimesInfinityIsNothing) {
  Maker m(43);
  ValueId x = m.b.Input("x", F32({1, 1, 1, 1}));
  const float infinite = std::numeric_limits<float>::infinity();
  ValueId w = m.b.AddConstant("", TensorValue::Of<float>({1, 1, 1, 3}, {infinite, 2, 3}));
  m.b.Output(m.b.Must(Op::kConv2d, {x, w}, ConvAttrs{.pads = {0, 1, 0, 1}}), "y");
  Counting counting;
  Graph g = *TrimWindows(m.b.Finish(), counting.env);
  EXPECT_EQ(reference::Evaluate(g, {{{1, 1, 1, 1}, {5}}})[0].data, std::vector<double>{10});
}

TEST(TrimWindows, ZerosAroundBecomePadding) {
  Rng rng(44);
  const PadAttrs around{{0, 2, 1, 0}, {0, 0, 3, 0}, {0, 0, 0, 0}, PadMode::kConstant, 0};
  const Window w{{{1, 2}, {0, 1, 0, 0}, {1, 1}, 1, Layout::kNHWC}, {1, 5, 6, 2}, {3, 2, 2, 3}};
  auto pads = [&](PadAttrs zeros) {
    PassEnv env;
    Graph g = ExpectKept(ConvolutionOf(w, DType::Float(32), &zeros, rng), {{"trim_windows", TrimWindows}}, env);
    return CountOps(g, Op::kPad);
  };
  EXPECT_EQ(pads(around), 0);
  PadAttrs ones = around, edge = around, channels = around, between = around;
  ones.value = 1;
  EXPECT_EQ(pads(ones), 1);
  edge.mode = PadMode::kEdge;
  EXPECT_EQ(pads(edge), 1);
  between.interior = {0, 1, 2, 0};
  EXPECT_EQ(pads(between), 1);
  Window wide = w;
  wide.kernel[2] = 3;
  channels.after[3] = 1;
  PassEnv env;
  Graph g = ExpectKept(ConvolutionOf(wide, DType::Float(32), &channels, rng), {{"trim_windows", TrimWindows}}, env);
  EXPECT_EQ(CountOps(g, Op::kPad), 1);
}

// In a transposed convolution zeros lie between the pixels, so few taps read data.
TEST(TrimWindows, SpreadPixels) {
  Rng rng(45);
  int trimmed = 0;
  for (int i = 0; i < 100; ++i) {
    Window w = DrawWindow(rng, 2);
    PadAttrs zeros{{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}, PadMode::kConstant, 0};
    for (int64_t d : {1, 2}) {
      zeros.interior[d] = static_cast<int64_t>(rng.Below(4));
      zeros.before[d] = static_cast<int64_t>(rng.Below(5));
      zeros.after[d] = static_cast<int64_t>(rng.Below(5));
    }
    const Graph g = ConvolutionOf(w, DType::Float(32), &zeros, rng);
    PassEnv env;
    trimmed += TapsOf(ExpectKept(g, {{"trim_windows", TrimWindows}}, env)) < TapsOf(g);
  }
  EXPECT_GT(trimmed, 20);
}

TEST(TrimWindows, RandomPools) {
  Rng rng(46);
  int trimmed = 0, kept = 0;
  for (int i = 0; i < 600; ++i) {
    auto below = [&](uint64_t n) { return static_cast<int64_t>(rng.Below(n)); };
    PoolAttrs a{{1 + below(7), 1 + below(7)}, {1 + below(3), 1 + below(3)}, {}, {1 + below(2), 1 + below(2)}};
    Shape image = {1, 2, 1 + below(3), 1 + below(3)};
    for (int end = 0; end < 2; ++end) {
      for (int d = 0; d < 2; ++d)
        a.pads.push_back(below(static_cast<uint64_t>((a.kernel[d] - 1) * a.dilations[d]) + 1));
    }
    a.ceil_mode = below(2) == 1;
    a.count_include_pad = below(4) == 0;
    const Op op = std::array{Op::kMaxPool2d, Op::kAvgPool2d, Op::kArgMaxPool}[static_cast<size_t>(below(3))];
    GraphBuilder b;
    ValueId x = b.Input("x", F32(image));
    Result<ValueId> y = b.Add(op, {x}, a);
    if (!y.ok()) continue;
    b.Output(*y, "y");
    const Graph g = b.Finish();
    // A window without data has no defined average or position of a maximum.
    const reference::Tensor in = reference::Random(image, rng), want = reference::Evaluate(g, {in})[0];
    const bool empty = std::any_of(want.data.begin(), want.data.end(), [](double v) { return !(std::abs(v) < 1e9); });
    PassEnv env;
    const Graph now = *TrimWindows(g, env);
    const auto& shorter = std::get<PoolAttrs>(now.nodes[0].attrs);
    if (!empty) {
      EXPECT_EQ(reference::Evaluate(now, {in})[0].data, want.data) << GraphText(g) << GraphText(now);
    }
    EXPECT_EQ(now.Spec(now.outputs[0]).shape, g.Spec(g.outputs[0]).shape);
    trimmed += shorter.kernel != a.kernel;
    kept += shorter == a;
    if (a.count_include_pad) {
      EXPECT_EQ(shorter, a);
    }
  }
  EXPECT_GT(trimmed, 100);
  EXPECT_GT(kept, 100);
}

// If the windows have one row and skip rows, the transpose of the image leaves out the skipped rows.
TEST(TrimWindows, TransposesLeaveOutSkippedRows) {
  struct Case {
    Op op;
    Shape kernel, strides;
    int64_t pad = 0, layers = 1;  // number of layers that read the image
    bool sliced = false;
  };
  const Case cases[] = {{Op::kConv2d, {1, 3}, {2, 3}, 0, 1, true},    {Op::kConv2d, {1, 1}, {3, 2}, 0, 1, true},
                        {Op::kConv2d, {1, 3}, {1, 2}, 0, 1, false},   {Op::kConv2d, {2, 3}, {2, 2}, 0, 1, false},
                        {Op::kConv2d, {3, 1}, {2, 2}, 0, 1, false},   {Op::kConv2d, {1, 3}, {2, 1}, 1, 1, false},
                        {Op::kConv2d, {1, 3}, {2, 3}, 0, 2, false},   {Op::kMaxPool2d, {1, 2}, {2, 2}, 0, 1, true},
                        {Op::kMaxPool2d, {2, 2}, {2, 2}, 0, 1, false}};
  for (const Case& c : cases) {
    Maker m(47);
    ValueId x = m.b.Input("x", F32({2, 3, 7, 8}));
    for (int64_t layer = 0; layer < c.layers; ++layer) {
      const Shape pads = {c.pad, 0, c.pad, 0};
      const bool conv = c.op == Op::kConv2d;
      m.b.Output(conv ? m.b.Must(c.op, {x, m.Random({6, 3, c.kernel[0], c.kernel[1]})}, ConvAttrs{c.strides, pads})
                      : m.b.Must(c.op, {x}, PoolAttrs{c.kernel, c.strides, pads}),
                 "y");
    }
    Counting counting;
    Graph g = ExpectKept(
        m.b.Finish(), {{"convert_layout", ConvertLayout}, {"trim_windows", TrimWindows}, {"fuse", Fuse}}, counting.env);
    bool sliced = false;
    for (const Node& node : g.nodes) {
      const bool first = node.op == Op::kFused && node.inputs[0] == g.inputs[0];
      sliced |= first && CountOps(*node.body, Op::kSlice) == 1 && CountOps(*node.body, Op::kTranspose) == 1;
    }
    EXPECT_EQ(sliced, c.sliced) << GraphText(g);
  }
}

}  // namespace
}  // namespace autotune::graph
