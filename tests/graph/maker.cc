#include "tests/graph/maker.h"

#include <limits>

#include "tests/after_pass.h"

namespace autotune::graph {

std::vector<AttentionForm> AttentionForms() {
  return {{},
          {.mask = {1, 1, 12, 10}},
          {.mask = {2, 1, 1, 10}, .by_node = true},
          {.by_node = true, .queries = 1, .heads = 6, .shared = 6},
          {.mask = {12, 10}, .heads = 6},
          {.keys = 40, .heads = 6, .shared = 1}};
}

Maker::Attention Maker::Attend(const AttentionForm& form) {
  const int64_t group = form.heads / form.shared, width = 3, depth = 5;
  const bool grouped = group > 1;
  auto heads = [&](int64_t of_group, int64_t rows, int64_t columns) {
    return grouped ? Shape{2, form.shared, of_group, rows, columns} : Shape{2, form.heads, rows, columns};
  };
  ValueId q = b.Input("q", F32(heads(group, form.queries, width))), k = b.Input("k", F32(heads(1, width, form.keys))),
          v = b.Input("v", F32(heads(1, form.keys, depth)));
  Attention a{};
  a.scores = b.Must(Op::kBatchMatmul, {q, k});
  ValueId s = a.scores;
  if (!form.mask.empty()) {
    s = b.Must(Op::kMul, {s, b.AddConstant("", TensorValue::Scalar(0.5F))});
    s = b.Must(Op::kAdd, {s, b.Input("mask", F32(form.mask))});
  }
  const int64_t last = static_cast<int64_t>(b.Spec(s).shape.size()) - 1;
  a.weights = form.by_node ? SoftmaxOrZero(s, last) : b.Must(Op::kSoftmax, {s}, AxisAttrs{last});
  a.values = b.Must(Op::kBatchMatmul, {a.weights, v});
  return a;
}

ValueId Maker::SoftmaxOrZero(ValueId x, int64_t axis) {
  auto number = [&](float value) { return b.AddConstant("", TensorValue::Scalar(value)); };
  ValueId most = b.Must(Op::kReduceMax, {x}, AxesAttrs{{axis}});
  most = b.Must(Op::kMax, {number(std::numeric_limits<float>::lowest()), most});
  ValueId e = b.Must(Op::kExp, {b.Must(Op::kSub, {x, most})});
  ValueId sum = b.Must(Op::kMax, {number(1), b.Must(Op::kReduceSum, {e}, AxesAttrs{{axis}})});
  return b.Must(Op::kMul, {e, b.Must(Op::kDiv, {number(1), sum})});
}

ValueId Maker::Positive(Shape shape) {
  reference::Tensor t = reference::Random(shape, rng);
  for (double& x : t.data) x = static_cast<float>(std::abs(x) + 0.5);
  return b.AddConstant("", reference::ToValue(t));
}

ValueId Maker::Conv(ValueId x, int64_t channels, int64_t kernel, int64_t groups, int64_t stride) {
  ConvAttrs a;
  a.pads = {kernel / 2, kernel / 2, kernel / 2, kernel / 2};
  a.strides = {stride, stride};
  a.groups = groups;
  return b.Must(Op::kConv2d, {x, Random({channels, b.Spec(x).shape[1] / groups, kernel, kernel})}, a, "conv");
}

ValueId Maker::Norm(ValueId x) {
  int64_t c = b.Spec(x).shape[1];
  return b.Must(Op::kBatchNorm, {x, Random({c}), Random({c}), Random({c}), Positive({c})}, BatchNormAttrs{}, "bn");
}

ValueId Maker::Pool(Op op, ValueId x, int64_t kernel, int64_t stride) {
  PoolAttrs a;
  a.kernel = {kernel, kernel};
  a.strides = {stride, stride};
  a.pads = {kernel / 2, kernel / 2, kernel / 2, kernel / 2};
  a.ceil_mode = true;
  return b.Must(op, {x}, a);
}

std::vector<reference::Tensor> RandomInputs(const Graph& g, uint64_t seed) {
  Rng rng(seed);
  std::vector<reference::Tensor> in;
  for (ValueId v : g.inputs) in.push_back(reference::Random(g.Spec(v).shape, rng));
  return in;
}

Graph ExpectKept(const Graph& g, const std::vector<Pass>& passes, PassEnv env) {
  auto in = RandomInputs(g, 7);
  auto want = reference::Evaluate(g, in);
  env.context.Add(std::make_shared<test::AfterPass<IRModuleView>>([&](std::string_view pass, const IRModuleView& view) {
    const Graph& now = view.module.main();
    auto got = reference::Evaluate(now, in);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(reference::Mismatch(got[i], want[i]), "") << pass << "\n" << GraphText(now);
    EXPECT_EQ(now.output_names, g.output_names);
    ASSERT_EQ(now.inputs.size(), g.inputs.size());
  }));
  Result<IRModule> out = RunPasses(IRModule(g), passes, env);
  EXPECT_TRUE(out.ok()) << (out.ok() ? "" : out.error().Text());
  return out.ok() ? out->main() : g;
}

int CountOps(const Graph& g, Op op) {
  int n = 0;
  for (const Node& node : g.nodes) n += node.op == op;
  return n;
}

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

}  // namespace autotune::graph
