#include "graph/pass.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/graph/maker.h"

namespace autotune::graph {
namespace {

TEST(Fuse, SwishIsOneKernel) {
  Maker m(14);
  ValueId x = m.b.Input("x", F32({1, 4, 4, 4}));
  ValueId y = m.Conv(x, 4, 1);
  y = m.b.Must(Op::kMul, {y, m.b.Must(Op::kSigmoid, {y})});
  m.b.Output(y, "y");
  PassEnv env;
  Graph g = ExpectKept(m.b.Finish(), {{"fuse", Fuse}}, env);
  EXPECT_EQ(g.nodes.size(), 1u);
}

// The gates of a recurrent cell are slices of one tensor with element-wise nodes on each. The kernel reads the slices
// in place.
TEST(Fuse, GatesAreReadInPlace) {
  auto fused = [](int64_t step, bool keep_slice) {
    Maker m(15);
    ValueId z = m.b.Input("z", F32({2, 12})), c = m.b.Input("c", F32({2, 4 / step}));
    auto gate = [&](int64_t which) {
      return m.b.Must(Op::kSlice, {z}, SliceAttrs{{0, 4 * which}, {2, 4 / step}, {1, step}});
    };
    ValueId input = gate(0), kept = m.b.Must(Op::kMul, {m.b.Must(Op::kSigmoid, {gate(1)}), c});
    ValueId fresh = m.b.Must(Op::kMul, {m.b.Must(Op::kSigmoid, {input}), m.b.Must(Op::kTanh, {gate(2)})});
    m.b.Output(m.b.Must(Op::kAdd, {kept, fresh}), "y");
    if (keep_slice) m.b.Output(input, "slice");
    PassEnv env;
    return ExpectKept(m.b.Finish(), {{"fuse", Fuse}}, env).nodes.size();
  };
  EXPECT_EQ(fused(1, false), 1u);
  EXPECT_EQ(fused(1, true), 2u);   // a slice that is also an output is stored as a tensor
  EXPECT_GT(fused(2, false), 1u);  // strided elements cannot be loaded as vectors
}

TEST(Fuse, NeverTwoOutputsNorTwoAnchors) {
  Maker m(15);
  ValueId x = m.b.Input("x", F32({1, 4, 4, 4}));
  ValueId a = m.Conv(x, 4, 1), b = m.Conv(x, 4, 3);
  ValueId sum = m.b.Must(Op::kAdd, {a, b});
  ValueId r = m.Relu(sum);
  m.b.Output(sum, "sum");
  m.b.Output(m.b.Must(Op::kMul, {r, m.Conv(r, 4, 1)}), "y");
  PassEnv env;
  Graph g = ExpectKept(m.b.Finish(), {{"fuse", Fuse}}, env);
  for (const Node& node : g.nodes) {
    int anchors = 0;
    for (const Node& inner : node.body->nodes) anchors += KindOf(inner.op) == OpKind::kAnchor;
    EXPECT_LE(anchors, 1);
    EXPECT_EQ(node.body->outputs.size(), 1u);
  }
  // The kernels are: conv; conv + add; relu; conv + mul.
  EXPECT_EQ(g.nodes.size(), 4u) << GraphText(g);
}

// Element-wise nodes in front of a sum with the result of a convolution join its kernel, although they come first.
TEST(Fuse, AnchorsTakeWhatIsAddedToThem) {
  const auto kernels = [](bool read_twice, bool for_image) {
    Maker m(18);
    const ValueId x = m.b.Input("x", F32({1, 4, 4, 4})), z = m.b.Input("z", F32({1, 4, 4, 4}));
    const ValueId added = m.b.Must(Op::kMul, {m.b.Must(Op::kSigmoid, {z}), z});
    const ValueId conv = m.Conv(for_image ? added : x, 4, 1);
    m.b.Output(m.Relu(m.b.Must(Op::kAdd, {conv, added})), "y");
    if (read_twice) m.b.Output(m.b.Must(Op::kReduceSum, {added}, AxesAttrs{{3}}), "sum");
    PassEnv env;
    const Graph g = ExpectKept(m.b.Finish(), {{"fuse", Fuse}}, env);
    for (const Node& node : g.nodes) {
      if (node.body->nodes.front().op == Op::kConv2d) {
        EXPECT_EQ(node.body->nodes.back().op, Op::kRelu);
      }
    }
    return g.nodes.size();
  };
  EXPECT_EQ(kernels(false, false), 1u);
  EXPECT_EQ(kernels(false, true), 2u) << "an anchor reads its image several times";
  EXPECT_EQ(kernels(true, false), 3u) << "another node reads it, too";
}

TEST(Fuse, WideningConsumerStaysOutside) {
  Maker m(16);
  ValueId x = m.b.Input("x", F32({1, 4})), wide = m.b.Input("wide", F32({8, 4}));
  m.b.Output(m.b.Must(Op::kAdd, {m.b.Must(Op::kMatmul, {x, m.Random({4, 4})}), wide}), "y");
  PassEnv env;
  Graph g = ExpectKept(m.b.Finish(), {{"fuse", Fuse}}, env);
  EXPECT_EQ(g.nodes.size(), 2u);
}

// Padding by a number behind element-wise nodes, a slice or a transpose is a part of their kernel.
TEST(Fuse, PaddingIsStoredByTheKernelBeforeIt) {
  auto kernels = [](auto&& make, PadAttrs pad = {{0, 1, 0}, {0, 0, 3}, {}, PadMode::kConstant, 2.5}) {
    Maker m(16);
    const ValueId before = make(m, m.b.Input("x", F32({2, 6, 5})));
    pad.interior.resize(pad.before.size());
    m.b.Output(m.b.Must(Op::kRelu, {m.b.Must(Op::kPad, {before}, pad)}), "y");
    PassEnv env;
    return ExpectKept(m.b.Finish(), {{"fuse", Fuse}}, env).nodes.size();
  };
  const auto doubled = [](Maker& m, ValueId x) { return m.b.Must(Op::kAdd, {x, x}); };
  EXPECT_EQ(kernels(doubled), 1u);
  EXPECT_EQ(kernels([&](Maker& m, ValueId x) { return m.b.Transpose(doubled(m, x), {0, 2, 1}); }), 1u);
  EXPECT_EQ(kernels([](Maker& m, ValueId x) { return m.b.Transpose(x, {2, 0, 1}); }), 1u);
  EXPECT_EQ(kernels([](Maker& m, ValueId x) {
              return m.b.Must(Op::kSlice, {x}, SliceAttrs{{0, 1, 0}, {2, 3, 5}, {1, 2, 1}});
            }),
            1u);

  EXPECT_EQ(kernels(doubled, {{0, 1, 0}, {0, 0, 3}, {}, PadMode::kEdge}), 2u) << "no number";
  EXPECT_EQ(kernels([](Maker& m, ValueId x) { return m.b.Must(Op::kReduceMax, {x}, AxesAttrs{{1}}); }), 2u) << "sums";
  EXPECT_EQ(kernels([&](Maker& m, ValueId x) {
              const ValueId sum = doubled(m, x);
              m.b.Output(sum, "sum");
              return sum;
            }),
            2u)
      << "an output";
}

TEST(Fuse, LayerNormalizationIsOneKernel) {
  Maker m(17);
  m.b.Output(LayerNorm(m, m.b.Input("x", F32({16, 12}))), "y");
  PassEnv env;
  Graph g = ExpectKept(m.b.Finish(), {{"fuse", Fuse}}, env);
  EXPECT_EQ(g.nodes.size(), 1u) << GraphText(g);
}

TEST(Fuse, SumsOfColumnsStayApart) {
  Maker m(18);
  ValueId x = m.b.Input("x", F32({16, 12}));
  ValueId sum = m.b.Must(Op::kReduceSum, {x}, AxesAttrs{{0}});
  m.b.Output(m.b.Must(Op::kSub, {x, sum}), "y");
  PassEnv env;
  EXPECT_EQ(ExpectKept(m.b.Finish(), {{"fuse", Fuse}}, env).nodes.size(), 2u);
}

TEST(Fuse, RowsOfTwoKindsStayApart) {
  Maker m(19);
  ValueId x = m.b.Input("x", F32({16, 12, 10}));
  ValueId a = m.b.Must(Op::kSub, {x, m.b.Must(Op::kReduceMax, {x}, AxesAttrs{{2}})});
  m.b.Output(m.b.Must(Op::kMul, {a, m.b.Must(Op::kReduceSum, {a}, AxesAttrs{{1, 2}})}), "y");
  PassEnv env;
  EXPECT_GT(ExpectKept(m.b.Finish(), {{"fuse", Fuse}}, env).nodes.size(), 1u);
}

// A product whose only reader is a sum is computed inside the sum, for sums over any axes. The square root of the sum
// joins the same kernel.
TEST(Fuse, ReductionsEndElementwiseNodes) {
  Maker m(20);
  ValueId x = m.b.Input("x", F32({6, 5, 4})), y = m.b.Input("y", F32({6, 5, 4}));
  ValueId sum = m.b.Must(Op::kReduceSum, {m.b.Must(Op::kMul, {x, y})}, AxesAttrs{{0, 2}});
  m.b.Output(m.b.Must(Op::kSqrt, {sum}), "z");
  PassEnv env;
  Graph g = ExpectKept(m.b.Finish(), {{"fuse", Fuse}}, env);
  EXPECT_EQ(g.nodes.size(), 1u) << GraphText(g);
}

TEST(Fuse, ReductionsLeaveOtherNodesAlone) {
  auto kernels = [](auto&& make) {
    Maker m(21);
    ValueId x = m.b.Input("x", F32({6, 5, 4}));
    m.b.Output(make(m, x), "z");
    PassEnv env;
    return ExpectKept(m.b.Finish(), {{"fuse", Fuse}}, env).nodes.size();
  };
  auto sum = [](Maker& m, ValueId v) { return m.b.Must(Op::kReduceSum, {v}, AxesAttrs{{0, 2}}); };
  // Not fused into the sum: expensive nodes, operands that a vector would have to gather, values with other readers, a
  // second reduction.
  EXPECT_EQ(kernels([&](Maker& m, ValueId x) { return sum(m, m.b.Must(Op::kExp, {x})); }), 2u);
  EXPECT_EQ(kernels([&](Maker& m, ValueId x) {
              return sum(m, m.b.Must(Op::kMul, {x, m.b.Input("y", F32({4}))}));
            }),
            2u);
  EXPECT_EQ(kernels([&](Maker& m, ValueId x) {
              ValueId square = m.b.Must(Op::kMul, {x, x});
              return m.b.Must(Op::kAdd, {square, sum(m, square)});
            }),
            3u);
  EXPECT_EQ(kernels([&](Maker& m, ValueId x) {
              return m.b.Must(Op::kReduceMax, {sum(m, m.b.Must(Op::kMul, {x, x}))}, AxesAttrs{{1}});
            }),
            2u);
}

TEST(Fuse, AttentionIsOneKernel) {
  for (const AttentionForm& form : AttentionForms()) {
    Maker m(16);
    m.b.Output(m.Relu(m.Attend(form).values), "y");
    PassEnv env;
    Graph g = ExpectKept(m.b.Finish(), {{"fuse", Fuse}}, env);
    EXPECT_EQ(g.nodes.size(), 1u) << GraphText(g);
  }
}

// For a target without a rule for attention, each product is in a kernel of its own, and so is the softmax if it is one
// operator.
TEST(Fuse, AttentionStaysApartWhereNoRuleSchedulesIt) {
  for (const AttentionForm& form : AttentionForms()) {
    Maker m(16);
    m.b.Output(m.Attend(form).values, "y");
    PassEnv env{.fuses_attention = false};
    Graph g = ExpectKept(m.b.Finish(), {{"fuse", Fuse}}, env);
    int softmaxes = 0, all = 0;
    for (const Node& node : g.nodes) {
      int products = 0, others = 0;
      for (const Node& inner : node.body->nodes) {
        products += KindOf(inner.op) == OpKind::kAnchor;
        others += inner.op == Op::kSoftmax;
      }
      EXPECT_LE(products, 1) << GraphText(g);
      EXPECT_FALSE(products > 0 && others > 0) << GraphText(g);
      softmaxes += others, all += products;
    }
    EXPECT_EQ(all, 2) << GraphText(g);
    if (form.by_node) continue;
    EXPECT_EQ(softmaxes, 1) << GraphText(g);
    EXPECT_EQ(g.nodes.size(), 3u) << GraphText(g);
  }
}

// Scores or weights that another node reads must be stored, so each product has a kernel of its own.
TEST(Fuse, AttentionWhoseScoresOrWeightsAreReadStaysApart) {
  for (const AttentionForm& form : AttentionForms()) {
    for (const bool weights : {false, true}) {
      for (const bool output : {false, true}) {
        Maker m(16);
        const Maker::Attention a = m.Attend(form);
        m.b.Output(a.values, "y");
        ValueId read = weights ? a.weights : a.scores;
        if (!output) read = m.b.Must(Op::kReduceSum, {m.b.Must(Op::kTanh, {read})}, AxesAttrs{{0}});
        m.b.Output(read, "read");
        PassEnv env;
        Graph g = ExpectKept(m.b.Finish(), {{"fuse", Fuse}}, env);
        for (const Node& node : g.nodes) {
          int products = 0;
          for (const Node& inner : node.body->nodes) products += KindOf(inner.op) == OpKind::kAnchor;
          EXPECT_LE(products, 1) << GraphText(g);
        }
      }
    }
  }
}

// With one key the only weight is 1, so nothing is normalized. With one column of values the second product is a plain
// sum, which another rule handles.
TEST(Fuse, AttentionOfOneColumnStaysApart) {
  auto products = [](int64_t keys, int64_t depth) {
    Maker m(18);
    ValueId q = m.b.Input("q", F32({2, 8, 3})), k = m.b.Input("k", F32({2, 3, keys}));
    ValueId w = m.b.Must(Op::kSoftmax, {m.b.Must(Op::kBatchMatmul, {q, k})}, AxisAttrs{2});
    m.b.Output(m.b.Must(Op::kBatchMatmul, {w, m.b.Input("v", F32({2, keys, depth}))}), "y");
    PassEnv env;
    return ExpectKept(m.b.Finish(), {{"fuse", Fuse}}, env).nodes.size();
  };
  EXPECT_EQ(products(2, 2), 1u);
  EXPECT_EQ(products(1, 2), 3u);
  EXPECT_EQ(products(20, 1), 3u);
}

// Not attention: a product without a softmax before it, a softmax over queries, weights as the right operand, weights
// times themselves, a constant right operand.
TEST(Fuse, ProductsThatAreNoAttentionStayApart) {
  auto kernels = [](const std::function<ValueId(Maker&, ValueId scores)>& rest) {
    Maker m(17);
    ValueId q = m.b.Input("q", F32({2, 8, 3})), k = m.b.Input("k", F32({2, 3, 8}));
    m.b.Output(rest(m, m.b.Must(Op::kBatchMatmul, {q, k})), "y");
    PassEnv env;
    return ExpectKept(m.b.Finish(), {{"fuse", Fuse}}, env).nodes.size();
  };
  auto values = [](Maker& m) { return m.b.Input("v", F32({2, 8, 8})); };
  auto softmax = [](Maker& m, ValueId s, int64_t axis) { return m.b.Must(Op::kSoftmax, {s}, AxisAttrs{axis}); };
  EXPECT_EQ(kernels([&](Maker& m, ValueId s) {
              ValueId w = softmax(m, s, 2);
              return m.b.Must(Op::kBatchMatmul, {w, values(m)});
            }),
            1u);
  EXPECT_EQ(kernels([&](Maker& m, ValueId s) {
              ValueId w = m.Relu(s);
              return m.b.Must(Op::kBatchMatmul, {w, values(m)});
            }),
            2u);
  EXPECT_EQ(kernels([&](Maker& m, ValueId s) {
              ValueId w = softmax(m, s, 1);
              return m.b.Must(Op::kBatchMatmul, {w, values(m)});
            }),
            3u);
  EXPECT_EQ(kernels([&](Maker& m, ValueId s) {
              ValueId w = softmax(m, s, 2);
              return m.b.Must(Op::kBatchMatmul, {values(m), w});
            }),
            3u);
  EXPECT_EQ(kernels([&](Maker& m, ValueId s) {
              ValueId w = softmax(m, s, 2);
              return m.b.Must(Op::kBatchMatmul, {w, w});
            }),
            3u);
  EXPECT_EQ(kernels([&](Maker& m, ValueId s) {  // the right operand is the constant weights of a dense layer
              ValueId w = softmax(m, s, 2);
              return m.b.Must(Op::kBatchMatmul, {w, m.Random({2, 8, 8})});
            }),
            3u);
}

}  // namespace
}  // namespace autotune::graph
