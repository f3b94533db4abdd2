#include "graph/pass.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "tests/graph/maker.h"

namespace autotune::graph {
namespace {

TEST(Simplify, MovementJoins) {
  GraphBuilder b;
  ValueId x = b.Input("x", F32({2, 3, 4}));
  ValueId t = b.Must(Op::kTranspose, {x}, TransposeAttrs{{2, 0, 1}});
  b.Output(b.Must(Op::kTranspose, {t}, TransposeAttrs{{1, 2, 0}}), "same");
  b.Output(b.Must(Op::kReshape, {b.Must(Op::kReshape, {x}, ReshapeAttrs{{24}})}, ReshapeAttrs{{4, 6}}), "flat");
  b.Output(t, "t");
  PassEnv env;
  Graph g = ExpectKept(b.Finish(), {{"simplify_graph", SimplifyGraph}}, env);
  EXPECT_EQ(g.outputs[0], g.inputs[0]);
  EXPECT_EQ(g.nodes.size(), 2u);
}

// Returns the numbers of transposes and of all nodes after simplification, and checks that the graph computes the same.
std::pair<int, size_t> Simplified(GraphBuilder& b, ValueId y) {
  b.Output(y, "y");
  PassEnv env;
  Graph g = ExpectKept(b.Finish(), {{"simplify_graph", SimplifyGraph}}, env);
  return {CountOps(g, Op::kTranspose), g.nodes.size()};
}

TEST(Simplify, TransposesJoinAcrossCutAndJoinedDimensions) {
  struct Case {
    const char* name;
    Shape image;
    std::vector<int64_t> first;
    Shape shape;  // between the transposes
    std::vector<int64_t> second;
    int transposes;
  };
  const Case cases[] = {
      {"cut channels", {2, 3, 5, 12}, {0, 3, 1, 2}, {2, 4, 3, 3, 5}, {0, 2, 1, 3, 4}, 1},
      {"cut rows, too", {2, 6, 5, 12}, {0, 3, 1, 2}, {2, 4, 3, 2, 3, 5}, {5, 0, 2, 3, 1, 4}, 1},
      {"joined pixels", {2, 3, 5, 12}, {0, 3, 1, 2}, {2, 12, 15}, {0, 2, 1}, 0},  // as the source, joined
      {"joined other dimensions", {2, 3, 5, 12}, {3, 0, 1, 2}, {24, 15}, {1, 0}, 1},
      {"ones", {1, 3, 1, 12}, {0, 3, 1, 2}, {4, 3, 3, 1, 1}, {2, 1, 0, 3, 4}, 1},
      {"cut and joined", {2, 3, 5, 12}, {0, 3, 1, 2}, {2, 4, 9, 5}, {0, 2, 1, 3}, 2},
  };
  for (const Case& c : cases) {
    GraphBuilder b;
    ValueId x = b.Must(Op::kTranspose, {b.Input("x", F32(c.image))}, TransposeAttrs{c.first});
    x = b.Must(Op::kReshape, {x}, ReshapeAttrs{c.shape});
    EXPECT_EQ(Simplified(b, b.Must(Op::kTranspose, {x}, TransposeAttrs{c.second})).first, c.transposes) << c.name;
  }
}

// A shuffle of channels between two changes of layout.
TEST(Simplify, AShuffleOfChannelsIsOneTranspose) {
  GraphBuilder b;
  ValueId x = b.Must(Op::kTranspose, {b.Input("x", F32({1, 3, 5, 12}))}, TransposeAttrs{{0, 3, 1, 2}});
  x = b.Must(Op::kReshape, {x}, ReshapeAttrs{{1, 4, 3, 3, 5}});
  x = b.Must(Op::kTranspose, {x}, TransposeAttrs{{0, 2, 1, 3, 4}});
  x = b.Must(Op::kReshape, {x}, ReshapeAttrs{{1, 12, 3, 5}});
  EXPECT_EQ(Simplified(b, b.Must(Op::kTranspose, {x}, TransposeAttrs{{0, 2, 3, 1}})), (std::pair<int, size_t>(1, 3)));
}

// A transpose with another reader exists anyway. The second transpose may be read in place, as keys that are an output.
TEST(Simplify, SharedTransposesStay) {
  for (bool shared : {false, true}) {
    GraphBuilder b;
    ValueId x = b.Must(Op::kTranspose, {b.Input("x", F32({2, 5, 3, 4}))}, TransposeAttrs{{0, 2, 1, 3}});
    if (shared) b.Output(x, "present");
    x = b.Must(Op::kReshape, {x}, ReshapeAttrs{{6, 5, 4}});
    EXPECT_EQ(Simplified(b, b.Must(Op::kTranspose, {x}, TransposeAttrs{{0, 2, 1}})).first, shared ? 2 : 1);
  }
}

TEST(Simplify, RandomTransposesAndReshapesKeepTheirMeaning) {
  Rng rng(23);
  int joined = 0;
  for (int i = 0; i < 500; ++i) {
    GraphBuilder b;
    auto below = [&](size_t n) { return static_cast<size_t>(rng.Below(n)); };
    Shape shape;
    for (size_t d = 0, rank = 1 + below(4); d < rank; ++d) shape.push_back(std::array{1, 2, 3, 4, 6}[below(5)]);
    ValueId x = b.Input("x", F32(shape));
    int transposes = 0;
    for (int step = 0; step < 5; ++step) {
      Shape now = b.Spec(x).shape;
      if (step % 2 == 1) {  // join two neighbours, or cut a dimension in two
        const size_t d = below(now.size());
        if (below(2) == 0 && d + 1 < now.size()) {
          now[d] *= now[d + 1];
          now.erase(now.begin() + static_cast<std::ptrdiff_t>(d) + 1);
        } else if (now[d] % 2 == 0) {
          now[d] /= 2;
          now.insert(now.begin() + static_cast<std::ptrdiff_t>(d + below(2)), 2);
        }
        x = b.Must(Op::kReshape, {x}, ReshapeAttrs{now});
        continue;
      }
      std::vector<int64_t> perm(now.size());
      std::iota(perm.begin(), perm.end(), 0);
      for (size_t d = perm.size(); d > 1; --d) std::swap(perm[d - 1], perm[below(d)]);
      x = b.Must(Op::kTranspose, {x}, TransposeAttrs{perm});
      ++transposes;
    }
    joined += Simplified(b, x).first < transposes;
  }
  EXPECT_GT(joined, 400);
}

TEST(Simplify, QuotientsByNumbersBecomeProducts) {
  Maker m(22);
  ValueId x = m.b.Input("x", F32({3, 4})), three = m.b.AddConstant("", TensorValue::Of<float>({1}, {3}));
  m.b.Output(m.b.Must(Op::kDiv, {x, three}), "y");
  m.b.Output(m.b.Must(Op::kDiv, {x, m.Positive({4})}), "many");
  // In floats, x * (1 / 3) may differ from x / 3, so a quotient stays where a step function such as floor reads it.
  m.b.Output(m.b.Must(Op::kFloor, {m.b.Must(Op::kDiv, {m.Relu(x), three})}), "floor");
  PassEnv env;
  Graph g = ExpectKept(m.b.Finish(), {{"simplify_graph", SimplifyGraph}}, env);
  EXPECT_EQ(CountOps(g, Op::kDiv), 2) << GraphText(g);
  EXPECT_EQ(CountOps(g, Op::kMul), 1);
}

// x / c may be 1 where x * (1 / c) is 0.99999994. There acosh is NaN, and atanh is finite; exp hardly differs.
TEST(Simplify, QuotientsStayBeforeFunctionsWithAnEndAtOne) {
  for (Op op : {Op::kAsin, Op::kAcos, Op::kAcosh, Op::kAtanh, Op::kExp}) {
    Maker m(23);
    const ValueId c = m.b.AddConstant("", TensorValue::Scalar(41));
    m.b.Output(m.b.Must(op, {m.b.Must(Op::kDiv, {m.b.Input("x", F32({4})), c})}), "y");
    PassEnv env;
    const Graph g = SimplifyGraph(m.b.Finish(), env).value();
    EXPECT_EQ(CountOps(g, Op::kDiv), op == Op::kExp ? 0 : 1) << GraphText(g);
  }
}

TEST(ShareCommonSubexpressions, EqualNodesAndSmallConstants) {
  Maker m(8);
  ValueId x = m.b.Input("x", F32({3}));
  ValueId one = m.b.AddConstant("", TensorValue::Scalar(1)), uno = m.b.AddConstant("", TensorValue::Scalar(1));
  ValueId two = m.b.AddConstant("", TensorValue::Scalar(2));
  ValueId a = m.b.Must(Op::kAdd, {x, one}), b = m.b.Must(Op::kAdd, {uno, x}), c = m.b.Must(Op::kAdd, {x, two});
  ValueId d = m.b.Must(Op::kSub, {x, one}), e = m.b.Must(Op::kSub, {one, x});
  for (ValueId v : {a, b, c, d, e}) m.b.Output(v, "v");
  PassEnv env;
  Graph g = ExpectKept(m.b.Finish(), {{"cse", ShareCommonSubexpressions}}, env);
  EXPECT_EQ(g.outputs[0], g.outputs[1]);
  EXPECT_EQ(g.nodes.size(), 4u);
  EXPECT_EQ(g.constants.size(), 2u);
}

TEST(SinkReshapes, BiasAndNormMeetTheProduct) {
  Maker m(20);
  ValueId x = m.b.Input("x", F32({1, 16, 12}));
  ValueId y = m.b.Must(Op::kMatmul, {m.b.Reshape(x, {16, 12}), m.Random({12, 12})});
  y = m.b.Must(Op::kAdd, {m.Random({12}), m.b.Reshape(y, {1, 16, 12})});
  y = LayerNorm(m, m.b.Must(Op::kAdd, {y, x}));
  m.b.Output(y, "y");
  PassEnv env;
  Graph g = ExpectKept(m.b.Finish(), {{"sink_reshapes", SinkReshapes}, {"fuse", Fuse}}, env);
  EXPECT_EQ(CountOps(g, Op::kFused), 2) << GraphText(g);  // kernels: matmul + add + add; the normalization
}

TEST(SinkReshapes, NotPastWhatDoesNotRegroup) {
  Maker m(21);
  ValueId x = m.b.Input("x", F32({4, 6}));
  ValueId y = m.b.Reshape(m.Relu(x), {4, 2, 3});
  m.b.Output(m.b.Must(Op::kAdd, {y, m.Random({1, 2, 1})}), "split");
  m.b.Output(m.b.Must(Op::kReduceSum, {y}, AxesAttrs{{2}}), "part");
  m.b.Output(m.b.Must(Op::kReduceSum, {y}, AxesAttrs{{1, 2}}), "whole");
  // The reshape of y must not sink past this sum. Its other operand is the result of a Relu without a reshape, so it
  // would need a new reshape, which would stand between that Relu and the sum and keep the two from being fused.
  m.b.Output(m.b.Must(Op::kAdd, {y, m.Relu(m.b.Input("z", F32({4, 2, 3})))}), "sum");
  PassEnv env;
  Graph g = ExpectKept(m.b.Finish(), {{"sink_reshapes", SinkReshapes}}, env);
  for (const Node& node : g.nodes) {
    bool whole = node.op == Op::kReduceSum && g.Spec(node.output).NumElements() == 4;
    if (node.op == Op::kAdd || node.op == Op::kReduceSum) {
      EXPECT_EQ(g.Spec(node.inputs[0]).rank(), whole ? 2 : 3) << GraphText(g);
    }
  }
}

}  // namespace
}  // namespace autotune::graph
