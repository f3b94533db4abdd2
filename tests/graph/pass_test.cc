#include "graph/pass.h"

#include <gtest/gtest.h>

#include "graph/extract.h"
#include "graph/memory_plan.h"
#include "graph/pipeline.h"
#include "tests/graph/reference.h"

namespace autotune::graph {
namespace {

TensorSpec F32(Shape shape) { return {DType::Float(32), std::move(shape)}; }

// Evaluates constants by the reference, and counts its calls.
struct Counting {
  int calls = 0;
  PassContext context;
  Counting() {
    context.evaluate = [this](const Graph& g) -> Result<std::vector<TensorValue>> {
      ++calls;
      std::vector<TensorValue> out;
      for (const auto& t : reference::Evaluate(g, {})) out.push_back(reference::ToValue(t));
      return out;
    };
  }
};

class Maker {
 public:
  explicit Maker(uint64_t seed) : rng(seed) {}
  ValueId Random(Shape shape) { return b.AddConstant("", reference::ToValue(reference::Random(shape, rng))); }
  ValueId Positive(Shape shape) {
    reference::Tensor t = reference::Random(shape, rng);
    for (double& x : t.data) x = static_cast<float>(std::abs(x) + 0.5);
    return b.AddConstant("", reference::ToValue(t));
  }
  ValueId Conv(ValueId x, int64_t channels, int64_t kernel, int64_t groups = 1, int64_t stride = 1) {
    Conv2dAttrs a;
    a.pads = {kernel / 2, kernel / 2, kernel / 2, kernel / 2};
    a.strides = {stride, stride};
    a.groups = groups;
    return b.Must(Op::kConv2d, {x, Random({channels, b.Spec(x).shape[1] / groups, kernel, kernel})}, a, "conv");
  }
  ValueId Norm(ValueId x) {
    int64_t c = b.Spec(x).shape[1];
    return b.Must(Op::kBatchNorm, {x, Random({c}), Random({c}), Random({c}), Positive({c})}, BatchNormAttrs{}, "bn");
  }
  ValueId Relu(ValueId x) { return b.Must(Op::kRelu, {x}, {}, "relu"); }
  ValueId Pool(Op op, ValueId x, int64_t kernel, int64_t stride) {
    Pool2dAttrs a;
    a.kernel = {kernel, kernel};
    a.strides = {stride, stride};
    a.pads = {kernel / 2, kernel / 2, kernel / 2, kernel / 2};
    a.ceil_mode = true;
    return b.Must(op, {x}, a);
  }
  GraphBuilder b;
  Rng rng;
};

std::vector<reference::Tensor> RandomInputs(const Graph& g, uint64_t seed) {
  Rng rng(seed);
  std::vector<reference::Tensor> in;
  for (ValueId v : g.inputs) in.push_back(reference::Random(g.Spec(v).shape, rng));
  return in;
}

// Same meaning after each pass; returns the last graph.
Graph ExpectKept(const Graph& g, const std::vector<Pass>& passes, PassContext& context) {
  auto in = RandomInputs(g, 7);
  auto want = reference::Evaluate(g, in);
  context.after = [&](std::string_view pass, const Graph& now) {
    auto got = reference::Evaluate(now, in);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_LE(reference::Excess(got[i], want[i]), 0) << pass << "\n" << GraphText(now);
    EXPECT_EQ(now.output_names, g.output_names);
    ASSERT_EQ(now.inputs.size(), g.inputs.size());
  };
  Result<Graph> out = RunPasses(g, passes, context);
  EXPECT_TRUE(out.ok()) << (out.ok() ? "" : out.error().Text());
  return out.ok() ? *out : g;
}

int CountOps(const Graph& g, Op op) {
  int n = 0;
  for (const Node& node : g.nodes) n += node.op == op;
  return n;
}

TEST(FoldBatchNorm, IntoConvolution) {
  Maker m(1);
  ValueId x = m.b.Input("x", F32({1, 4, 6, 6}));
  ValueId y = m.b.Must(Op::kAdd, {m.Conv(x, 6, 3, 2), m.Random({1, 6, 1, 1})});
  y = m.Norm(y);
  // What Caffe exports: a further scale and shift.
  y = m.b.Must(Op::kAdd, {m.b.Must(Op::kMul, {m.Random({6, 1, 1}), y}), m.Random({6, 1, 1})});
  m.b.Output(m.Relu(y), "y");
  Counting counting;
  Graph g = ExpectKept(m.b.Finish(), {{"fold_batch_norm", FoldBatchNorm}, {"fold_constants", FoldConstants}},
                       counting.context);
  EXPECT_EQ(counting.calls, 1);
  EXPECT_EQ(g.nodes.size(), 3u) << GraphText(g);  // conv2d, add, relu
}

TEST(FoldBatchNorm, IntoProduct) {
  Maker m(2);
  ValueId x = m.b.Input("x", F32({3, 4}));
  m.b.Output(m.Norm(m.b.Must(Op::kMatmul, {x, m.Random({4, 5})})), "y");
  Counting counting;
  Graph g = ExpectKept(m.b.Finish(), {{"fold_batch_norm", FoldBatchNorm}, {"fold_constants", FoldConstants}},
                       counting.context);
  EXPECT_EQ(g.nodes.size(), 2u) << GraphText(g);
}

TEST(FoldBatchNorm, NotWhereTheProductIsReadElsewhere) {
  Maker m(3);
  ValueId x = m.b.Input("x", F32({1, 3, 4, 4}));
  ValueId conv = m.Conv(x, 3, 1);
  m.b.Output(m.b.Must(Op::kAdd, {m.Norm(conv), conv}), "y");
  Counting counting;
  Graph g = ExpectKept(m.b.Finish(), {{"fold_batch_norm", FoldBatchNorm}, {"fold_constants", FoldConstants}},
                       counting.context);
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
  Graph g = ExpectKept(m.b.Finish(), {{"fold_batch_norm", FoldBatchNorm}, {"fold_constants", FoldConstants}},
                       counting.context);
  EXPECT_EQ(CountOps(g, Op::kMul), 1);
}

TEST(FoldBatchNorm, StatisticsThatAreInputs) {
  Maker m(5);
  ValueId x = m.b.Input("x", F32({2, 3, 2, 2})), mean = m.b.Input("mean", F32({3}));
  m.b.Output(m.b.Must(Op::kBatchNorm, {x, m.Random({3}), m.Random({3}), mean, m.Positive({3})}, BatchNormAttrs{}), "y");
  Counting counting;
  Graph g = ExpectKept(m.b.Finish(), {{"fold_batch_norm", FoldBatchNorm}, {"fold_constants", FoldConstants}},
                       counting.context);
  EXPECT_EQ(CountOps(g, Op::kBatchNorm), 0);
}

TEST(FoldConstants, WithoutEvaluatorNothingHappens) {
  Maker m(6);
  ValueId x = m.b.Input("x", F32({3}));
  m.b.Output(m.b.Must(Op::kAdd, {x, m.b.Must(Op::kAdd, {m.Random({3}), m.Random({3})})}), "y");
  Graph g = m.b.Finish();
  PassContext context;
  EXPECT_EQ(FoldConstants(g, context)->nodes.size(), 2u);
  Counting counting;
  EXPECT_EQ(FoldConstants(g, counting.context)->nodes.size(), 1u);
  counting.context.evaluate = [](const Graph&) -> Result<std::vector<TensorValue>> { return Err("no compiler"); };
  EXPECT_EQ(FoldConstants(g, counting.context).error().Text(), "no compiler (while folding constants)");
}

TEST(FoldConstants, WholeGraph) {
  Maker m(7);
  m.b.Input("unused", F32({3}));
  m.b.Output(m.b.Must(Op::kRelu, {m.Random({3})}), "y");
  Counting counting;
  Graph g = ExpectKept(m.b.Finish(), {{"fold_constants", FoldConstants}}, counting.context);
  EXPECT_TRUE(g.nodes.empty());
  EXPECT_EQ(g.inputs.size(), 1u);
}

TEST(Simplify, MovementJoins) {
  GraphBuilder b;
  ValueId x = b.Input("x", F32({2, 3, 4}));
  ValueId t = b.Must(Op::kTranspose, {x}, TransposeAttrs{{2, 0, 1}});
  b.Output(b.Must(Op::kTranspose, {t}, TransposeAttrs{{1, 2, 0}}), "same");
  b.Output(b.Must(Op::kReshape, {b.Must(Op::kReshape, {x}, ReshapeAttrs{{24}})}, ReshapeAttrs{{4, 6}}), "flat");
  b.Output(t, "t");
  PassContext context;
  Graph g = ExpectKept(b.Finish(), {{"simplify", Simplify}}, context);
  EXPECT_EQ(g.outputs[0], g.inputs[0]);
  EXPECT_EQ(g.nodes.size(), 2u);
}

TEST(ShareCommonSubexpressions, EqualNodesAndSmallConstants) {
  Maker m(8);
  ValueId x = m.b.Input("x", F32({3}));
  ValueId one = m.b.AddConstant("", TensorValue::Scalar(1)), uno = m.b.AddConstant("", TensorValue::Scalar(1));
  ValueId two = m.b.AddConstant("", TensorValue::Scalar(2));
  ValueId a = m.b.Must(Op::kAdd, {x, one}), b = m.b.Must(Op::kAdd, {uno, x}), c = m.b.Must(Op::kAdd, {x, two});
  ValueId d = m.b.Must(Op::kSub, {x, one}), e = m.b.Must(Op::kSub, {one, x});
  for (ValueId v : {a, b, c, d, e}) m.b.Output(v, "v");
  PassContext context;
  Graph g = ExpectKept(m.b.Finish(), {{"cse", ShareCommonSubexpressions}}, context);
  EXPECT_EQ(g.outputs[0], g.outputs[1]);
  EXPECT_EQ(g.nodes.size(), 4u);
  EXPECT_EQ(g.constants.size(), 2u);
}

TEST(ConvertLayout, OnlyTheEdgesTranspose) {
  Maker m(9);
  ValueId x = m.b.Input("x", F32({1, 4, 8, 8}));
  ValueId a = m.Relu(m.b.Must(Op::kAdd, {m.Conv(x, 8, 3), m.Random({1, 8, 1, 1})}));
  ValueId b = m.Pool(Op::kMaxPool2d, m.Conv(a, 8, 1), 3, 1);
  ValueId c = m.b.Must(Op::kConcat, {m.b.Must(Op::kAdd, {a, b}), a}, AxisAttrs{1});
  ValueId d = m.b.Must(Op::kLrn, {m.Pool(Op::kAvgPool2d, c, 3, 2)}, LrnAttrs{5, 0.1f, 0.75f, 1, 1});
  m.b.Output(m.b.Must(Op::kMul, {d, m.Random({5, 1})}), "y");
  Counting counting;
  Graph g = ExpectKept(m.b.Finish(), {{"convert_layout", ConvertLayout}, {"fold_constants", FoldConstants}},
                       counting.context);
  EXPECT_EQ(CountOps(g, Op::kTranspose), 2) << GraphText(g);
  for (const Node& node : g.nodes) {
    if (node.op == Op::kConv2d) {
      EXPECT_EQ(std::get<Conv2dAttrs>(node.attrs).layout, Layout::kNHWC);
    }
    if (node.op == Op::kConcat) {
      EXPECT_EQ(std::get<AxisAttrs>(node.attrs).axis, 3);
    }
  }
}

// Where a network has several outputs, each is converted before the next is computed, so that they share memory.
TEST(ConvertLayout, OutputsAreConvertedAtOnce) {
  Maker m(22);
  ValueId x = m.b.Input("x", F32({1, 4, 6, 6}));
  m.b.Output(m.Relu(m.Conv(x, 5, 3)), "y");
  m.b.Output(m.Relu(m.Conv(x, 7, 3)), "z");
  Counting counting;
  Graph g = ExpectKept(m.b.Finish(), {{"convert_layout", ConvertLayout}, {"fold_constants", FoldConstants}},
                       counting.context);
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
    Graph g = ExpectKept(m.b.Finish(),
                         {{"convert_layout", ConvertLayout}, {"simplify", Simplify}, {"fold_constants", FoldConstants}},
                         counting.context);
    EXPECT_EQ(CountOps(g, Op::kTranspose), extent == 1 ? 0 : 2);
  }
}

TEST(ConvertLayout, TheModelsOwnTransposesCancel) {
  Maker m(11);
  ValueId x = m.b.Input("x", F32({1, 8, 8, 3}));
  ValueId y = m.Conv(m.b.Transpose(x, {0, 3, 1, 2}), 4, 3);
  m.b.Output(m.b.Transpose(m.Relu(y), {0, 2, 3, 1}), "y");
  Counting counting;
  Graph g = ExpectKept(m.b.Finish(), {{"convert_layout", ConvertLayout}, {"fold_constants", FoldConstants}},
                       counting.context);
  EXPECT_EQ(CountOps(g, Op::kTranspose), 0) << GraphText(g);
}

// A residual network in small.
Graph Residual(uint64_t seed) {
  Maker m(seed);
  ValueId x = m.b.Input("x", F32({1, 4, 8, 8}));
  x = m.Pool(Op::kMaxPool2d, m.Relu(m.Norm(m.Conv(x, 8, 3))), 3, 2);
  for (int i = 0; i < 2; ++i) {
    ValueId main = m.Norm(m.Conv(m.Relu(m.Norm(m.Conv(x, 8, 1))), 16, 3));
    ValueId side = i == 0 ? m.Norm(m.Conv(x, 16, 1)) : x;
    x = m.Relu(m.b.Must(Op::kAdd, {main, side}));
  }
  ValueId y = m.b.Must(Op::kGlobalAvgPool, {x}, ImageAttrs{});
  y = m.b.Must(Op::kMatmul, {m.b.Reshape(y, {1, 16}), m.Random({16, 10})});
  y = m.b.Must(Op::kAdd, {y, m.Random({10})});
  m.b.Output(m.b.Must(Op::kSoftmax, {y}, AxisAttrs{1}), "y");
  return m.b.Finish();
}

TEST(Pipeline, ResidualNetwork) {
  Counting counting;
  Graph g = ExpectKept(Residual(12), Pipeline(), counting.context);
  EXPECT_EQ(counting.calls, 1);
  std::vector<Task> tasks = ExtractTasks(g);
  std::string labels;
  int kernels = 0;
  for (const Task& t : tasks) {
    labels += t.Label() + " x" + std::to_string(t.weight) + "\n";
    kernels += t.weight;
  }
  EXPECT_EQ(labels,
            "transpose x1\n"
            "conv2d_add_relu x1\n"
            "max_pool2d x1\n"
            "conv2d_add_relu x1\n"
            "conv2d_add x1\n"
            "conv2d_add_add_relu x2\n"
            "conv2d_add_relu x1\n"
            "global_avg_pool x1\n"
            "matmul_add x1\n"
            "softmax x1\n");
  for (const Node& node : g.nodes) EXPECT_TRUE(node.op == Op::kFused || node.op == Op::kReshape);
}

TEST(Pipeline, DisabledPassIsLeftOut) {
  Counting counting;
  counting.context.disabled = {"convert_layout"};
  Graph g = ExpectKept(Residual(13), Pipeline(), counting.context);
  EXPECT_EQ(counting.context.times_ms.count("convert_layout"), 0u);
  EXPECT_EQ(counting.context.times_ms.count("fuse"), 1u);
  EXPECT_NE(GraphText(g).find("layout=NCHW"), std::string::npos);
}

TEST(Fuse, SwishIsOneKernel) {
  Maker m(14);
  ValueId x = m.b.Input("x", F32({1, 4, 4, 4}));
  ValueId y = m.Conv(x, 4, 1);
  y = m.b.Must(Op::kMul, {y, m.b.Must(Op::kSigmoid, {y})});
  m.b.Output(y, "y");
  PassContext context;
  Graph g = ExpectKept(m.b.Finish(), {{"fuse", Fuse}}, context);
  EXPECT_EQ(g.nodes.size(), 1u);
}

TEST(Fuse, NeverTwoOutputsNorTwoAnchors) {
  Maker m(15);
  ValueId x = m.b.Input("x", F32({1, 4, 4, 4}));
  ValueId a = m.Conv(x, 4, 1), b = m.Conv(x, 4, 3);
  ValueId sum = m.b.Must(Op::kAdd, {a, b});
  ValueId r = m.Relu(sum);
  m.b.Output(sum, "sum");
  m.b.Output(m.b.Must(Op::kMul, {r, m.Conv(r, 4, 1)}), "y");
  PassContext context;
  Graph g = ExpectKept(m.b.Finish(), {{"fuse", Fuse}}, context);
  for (const Node& node : g.nodes) {
    int anchors = 0;
    for (const Node& inner : node.body->nodes) anchors += KindOf(inner.op) == OpKind::kAnchor;
    EXPECT_LE(anchors, 1);
    EXPECT_EQ(node.body->outputs.size(), 1u);
  }
  // conv; conv + add; relu; conv + mul
  EXPECT_EQ(g.nodes.size(), 4u) << GraphText(g);
}

TEST(Fuse, WideningConsumerStaysOutside) {
  Maker m(16);
  ValueId x = m.b.Input("x", F32({1, 4})), wide = m.b.Input("wide", F32({8, 4}));
  m.b.Output(m.b.Must(Op::kAdd, {m.b.Must(Op::kMatmul, {x, m.Random({4, 4})}), wide}), "y");
  PassContext context;
  Graph g = ExpectKept(m.b.Finish(), {{"fuse", Fuse}}, context);
  EXPECT_EQ(g.nodes.size(), 2u);
}

// As exporters write it before operator set 17.
ValueId LayerNorm(Maker& m, ValueId x) {
  int64_t last = m.b.Spec(x).rank() - 1, n = m.b.Spec(x).shape.back();
  auto number = [&](float value) { return m.b.AddConstant("", TensorValue::Scalar(value)); };
  auto mean = [&](ValueId v) {
    return m.b.Must(Op::kMul, {m.b.Must(Op::kReduceSum, {v}, AxesAttrs{{last}}), number(1 / static_cast<float>(n))});
  };
  ValueId centered = m.b.Must(Op::kSub, {x, mean(x)});
  ValueId variance = mean(m.b.Must(Op::kMul, {centered, centered}));
  ValueId deviation = m.b.Must(Op::kSqrt, {m.b.Must(Op::kAdd, {variance, number(1e-5f)})});
  ValueId y = m.b.Must(Op::kMul, {m.b.Must(Op::kDiv, {centered, deviation}), m.Random({n})});
  return m.b.Must(Op::kAdd, {y, m.Random({n})});
}

TEST(Fuse, LayerNormalizationIsOneKernel) {
  Maker m(17);
  m.b.Output(LayerNorm(m, m.b.Input("x", F32({16, 12}))), "y");
  PassContext context;
  Graph g = ExpectKept(m.b.Finish(), {{"fuse", Fuse}}, context);
  EXPECT_EQ(g.nodes.size(), 1u) << GraphText(g);
}

TEST(Fuse, SumsOfColumnsStayApart) {
  Maker m(18);
  ValueId x = m.b.Input("x", F32({16, 12}));
  ValueId sum = m.b.Must(Op::kReduceSum, {x}, AxesAttrs{{0}});
  m.b.Output(m.b.Must(Op::kSub, {x, sum}), "y");
  PassContext context;
  EXPECT_EQ(ExpectKept(m.b.Finish(), {{"fuse", Fuse}}, context).nodes.size(), 2u);
}

TEST(Fuse, RowsOfTwoKindsStayApart) {
  Maker m(19);
  ValueId x = m.b.Input("x", F32({16, 12, 10}));
  ValueId a = m.b.Must(Op::kSub, {x, m.b.Must(Op::kReduceMax, {x}, AxesAttrs{{2}})});
  m.b.Output(m.b.Must(Op::kMul, {a, m.b.Must(Op::kReduceSum, {a}, AxesAttrs{{1, 2}})}), "y");
  PassContext context;
  EXPECT_GT(ExpectKept(m.b.Finish(), {{"fuse", Fuse}}, context).nodes.size(), 1u);
}

TEST(SinkReshapes, BiasAndNormMeetTheProduct) {
  Maker m(20);
  ValueId x = m.b.Input("x", F32({1, 16, 12}));
  ValueId y = m.b.Must(Op::kMatmul, {m.b.Reshape(x, {16, 12}), m.Random({12, 12})});
  y = m.b.Must(Op::kAdd, {m.Random({12}), m.b.Reshape(y, {1, 16, 12})});
  y = LayerNorm(m, m.b.Must(Op::kAdd, {y, x}));
  m.b.Output(y, "y");
  PassContext context;
  Graph g = ExpectKept(m.b.Finish(), {{"sink_reshapes", SinkReshapes}, {"fuse", Fuse}}, context);
  EXPECT_EQ(CountOps(g, Op::kFused), 2) << GraphText(g);  // matmul + add + add; the normalization
}

TEST(SinkReshapes, NotPastWhatDoesNotRegroup) {
  Maker m(21);
  ValueId x = m.b.Input("x", F32({4, 6}));
  ValueId y = m.b.Reshape(m.Relu(x), {4, 2, 3});
  m.b.Output(m.b.Must(Op::kAdd, {y, m.Random({1, 2, 1})}), "split");
  m.b.Output(m.b.Must(Op::kReduceSum, {y}, AxesAttrs{{2}}), "part");
  m.b.Output(m.b.Must(Op::kReduceSum, {y}, AxesAttrs{{1, 2}}), "whole");
  // Another computed operand would have to be reshaped, and could no longer take the sum along.
  m.b.Output(m.b.Must(Op::kAdd, {y, m.Relu(m.b.Input("z", F32({4, 2, 3})))}), "sum");
  PassContext context;
  Graph g = ExpectKept(m.b.Finish(), {{"sink_reshapes", SinkReshapes}}, context);
  for (const Node& node : g.nodes) {
    bool whole = node.op == Op::kReduceSum && g.Spec(node.output).NumElements() == 4;
    if (node.op == Op::kAdd || node.op == Op::kReduceSum) {
      EXPECT_EQ(g.Spec(node.inputs[0]).rank(), whole ? 2 : 3) << GraphText(g);
    }
  }
}

TEST(Simplify, QuotientsByNumbersBecomeProducts) {
  Maker m(22);
  ValueId x = m.b.Input("x", F32({3, 4})), three = m.b.AddConstant("", TensorValue::Of<float>({1}, {3}));
  m.b.Output(m.b.Must(Op::kDiv, {x, three}), "y");
  m.b.Output(m.b.Must(Op::kDiv, {x, m.Positive({4})}), "many");
  // 3 * (1 / 3) is not 1 in floats: where steps follow, the quotient stays.
  m.b.Output(m.b.Must(Op::kFloor, {m.b.Must(Op::kDiv, {m.Relu(x), three})}), "floor");
  PassContext context;
  Graph g = ExpectKept(m.b.Finish(), {{"simplify", Simplify}}, context);
  EXPECT_EQ(CountOps(g, Op::kDiv), 2) << GraphText(g);
  EXPECT_EQ(CountOps(g, Op::kMul), 1);
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
  PassContext context;
  Graph g = ExpectKept(m.b.Finish(), {{"convert_layout", ConvertLayout}}, context);
  int activations = 0;
  for (const Node& node : g.nodes) activations += node.op == Op::kTranspose && !g.FindConstant(node.inputs[0]);
  EXPECT_EQ(activations, 2) << GraphText(g);  // of the input and of the output
}

TEST(Extract, TextHasNoNamesAndOnlyLiteralValues) {
  auto make = [](const std::string& name, float literal, uint64_t seed, bool swapped) {
    Maker m(seed);
    ValueId x = m.b.Input(name, F32({2, 3}));
    ValueId y = m.b.Must(Op::kMatmul, {x, m.Random({3, 4})}, {}, name);
    ValueId c = m.b.AddConstant(name, TensorValue::Of<float>({1}, {literal}));
    y = swapped ? m.b.Must(Op::kMul, {c, y}) : m.b.Must(Op::kMul, {y, c});
    m.b.Output(y, name);
    PassContext context;
    return ExtractTasks(*Fuse(m.b.Finish(), context))[0];
  };
  Task t = make("a", 2, 1, false);
  EXPECT_EQ(t.text,
            "subgraph v1\n"
            "%0 = input f32[2,3]\n"
            "%1 = constant f32[3,4]\n"
            "%2 = constant f32[1] 0x40000000\n"
            "%3 = matmul(%0, %1) : f32[2,4]\n"
            "%4 = mul(%3, %2) : f32[2,4]\n"
            "output %4\n");
  EXPECT_EQ(t.hash, make("b", 2, 99, true).hash);
  EXPECT_NE(t.hash, make("a", 3, 1, false).hash);
  EXPECT_EQ(t.flops, 2 * 2 * 3 * 4 + 8);
}

// Stored in databases: a change here is a new version of the text, and orphans every record.
TEST(Extract, HashGolden) {
  Maker m(1);
  ValueId x = m.b.Input("x", F32({1, 8, 8, 4}));
  Conv2dAttrs a;
  a.layout = Layout::kNHWC;
  a.pads = {1, 1, 1, 1};
  ValueId y = m.b.Must(Op::kConv2d, {x, m.Random({3, 3, 4, 8})}, a);
  y = m.b.Must(Op::kClip, {m.b.Must(Op::kAdd, {y, m.Random({1, 1, 1, 8})})}, ClipAttrs{0, 6});
  m.b.Output(y, "y");
  PassContext context;
  Task t = ExtractTasks(*Fuse(m.b.Finish(), context))[0];
  EXPECT_EQ(
      t.text,
      "subgraph v1\n"
      "%0 = input f32[1,8,8,4]\n"
      "%1 = constant f32[3,3,4,8]\n"
      "%2 = constant f32[1,1,1,8]\n"
      "%3 = conv2d(%0, %1) {strides=[1,1], pads=[1,1,1,1], dilations=[1,1], groups=1, layout=NHWC} : f32[1,8,8,8]\n"
      "%4 = add(%3, %2) : f32[1,8,8,8]\n"
      "%5 = clip(%4) {min=0, max=6} : f32[1,8,8,8]\n"
      "output %5\n");
  EXPECT_EQ(t.hash.Hex(), "0a9cd250338907379b7e64218af154f8");
}

// No two values live at the same time share bytes; checked by the slow definition.
void CheckPlan(const Graph& g, const MemoryPlan& plan) {
  size_t n = g.nodes.size();
  auto born = [&](ValueId v) { return g.Producer(v) ? g.values[v].index : -1; };
  std::vector<int> dies(g.values.size(), -1);
  for (size_t i = 0; i < n; ++i) {
    dies[g.nodes[i].output] = std::max(dies[g.nodes[i].output], static_cast<int>(i));
    for (ValueId v : g.nodes[i].inputs) dies[v] = static_cast<int>(i);
  }
  for (ValueId v : g.outputs) dies[v] = static_cast<int>(n);
  for (const Constant& c : g.constants) dies[c.value] = static_cast<int>(n);
  for (ValueId v : g.inputs) dies[v] = static_cast<int>(n);
  auto alias_of = [&](ValueId v) {
    while (g.Producer(v) && g.Producer(v)->op == Op::kReshape) v = g.Producer(v)->inputs[0];
    return v;
  };
  for (ValueId a = 0; a < static_cast<ValueId>(g.values.size()); ++a) {
    EXPECT_GE(plan.storage_bytes[plan.storage_id[a]], g.Spec(a).Bytes());
    for (ValueId b = 0; b < a; ++b) {
      bool overlap = born(a) <= dies[b] && born(b) <= dies[a];
      if (alias_of(a) == alias_of(b)) {
        EXPECT_EQ(plan.storage_id[a], plan.storage_id[b]);
      } else if (overlap) {
        EXPECT_NE(plan.storage_id[a], plan.storage_id[b]) << a << " " << b;
      }
    }
  }
}

TEST(MemoryPlan, SharesAndNeverOverlaps) {
  Counting counting;
  Graph g = *Optimize(Residual(17), counting.context);
  MemoryPlan plan = PlanMemory(g);
  CheckPlan(g, plan);
  EXPECT_LT(plan.storage_bytes.size(), g.values.size());
  // A chain needs two buffers besides its ends.
  GraphBuilder b;
  ValueId x = b.Input("x", F32({1000}));
  for (int i = 0; i < 10; ++i) x = b.Must(Op::kRelu, {x});
  b.Output(x, "y");
  Graph chain = b.Finish();
  plan = PlanMemory(chain);
  CheckPlan(chain, plan);
  EXPECT_EQ(plan.storage_bytes.size(), 4u);
  EXPECT_EQ(plan.workspace_bytes, 2 * 4032);  // 4000 rounded up to 64
}

TEST(MemoryPlan, AliasesOfOutputsAndInputs) {
  GraphBuilder b;
  ValueId x = b.Input("x", F32({2, 3}));
  ValueId r = b.Must(Op::kRelu, {x});
  ValueId early = b.Reshape(r, {6});
  b.Output(early, "early");
  ValueId y = b.Must(Op::kRelu, {b.Must(Op::kRelu, {b.Must(Op::kRelu, {r})})});
  b.Output(y, "late");
  b.Output(b.Reshape(x, {3, 2}), "input");
  Graph g = b.Finish();
  MemoryPlan plan = PlanMemory(g);
  CheckPlan(g, plan);
  EXPECT_EQ(plan.workspace_bytes, 2 * 64);  // what lies between the first Relu, an output's, and the last
}

}  // namespace
}  // namespace autotune::graph
