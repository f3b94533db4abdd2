// Products of bf16: they equal those of the widened numbers; rounding is for what the target multiplies faster.
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/pass.h"
#include "tests/graph/maker.h"

namespace autotune::graph {
namespace {

const DType kBf16 = DType::BFloat16(), kF32 = DType::Float(32);

struct Product {
  int64_t rows = 8, terms = 32;
  bool conv = false, constant = true, views = false;
  DType data = kBf16, weights = kBf16;
  int groups = 1;
};

Graph GraphOf(const Product& p) {
  Maker m(5);
  const auto widened = [&](ValueId v) {
    return m.b.graph().Spec(v).dtype == kF32 ? v : m.b.Must(Op::kCast, {v}, CastAttrs{kF32});
  };
  const auto weights = [&](const Shape& shape) {
    std::vector<double> numbers;
    for (int64_t i = 0; i < reference::Count(shape); ++i) numbers.push_back(static_cast<double>(i % 17) / 8 - 1);
    return p.constant ? m.b.AddConstant("w", TensorValue::FromNumbers(p.weights, shape, numbers))
                      : m.b.Input("w", {p.weights, shape});
  };
  ValueId y = -1;
  if (p.conv) {
    const ValueId x = widened(m.b.Input("x", {p.data, {1, 5, 4, p.terms}}));
    const ValueId w = widened(weights({3, 3, p.terms / p.groups, 6}));
    y = m.b.Must(Op::kConv2d, {x, w}, ConvAttrs{.pads = {1, 1, 1, 1}, .groups = p.groups, .layout = Layout::kNHWC});
  } else {
    ValueId x = widened(m.b.Input("x", {p.data, p.views ? Shape{2, p.rows / 2, p.terms} : Shape{p.rows, p.terms}}));
    if (p.views) x = m.b.Reshape(x, {p.rows, p.terms});
    ValueId w = widened(weights(p.views ? Shape{6, p.terms} : Shape{p.terms, 6}));
    if (p.views) w = m.b.Transpose(w, {1, 0});
    y = m.b.Must(Op::kMatmul, {x, w});
  }
  m.b.Output(y, "y");
  return m.b.Finish();
}

std::string TypesOf(const Graph& g) {
  const auto product =
      std::ranges::find_if(g.nodes, [](const Node& n) { return n.op == Op::kMatmul || n.op == Op::kConv2d; });
  return g.Spec(product->inputs[0]).dtype.Text() + " " + g.Spec(product->inputs[1]).dtype.Text();
}

std::string Multiplied(const Product& p, bool multiplies_bf16 = true) {
  return TypesOf(ExpectKept(GraphOf(p), {{"bf16_products", Bf16Products}}, {.multiplies_bf16 = multiplies_bf16}));
}

TEST(Bf16Products, OfConstantsAreMultipliedAsTheyAre) {
  EXPECT_EQ(Multiplied({}), "bf16 bf16");
  EXPECT_EQ(Multiplied({.views = true}), "bf16 bf16");
  EXPECT_EQ(Multiplied({.conv = true}), "bf16 bf16");
}

TEST(Bf16Products, OthersAreWidened) {
  EXPECT_EQ(Multiplied({}, false), "f32 f32") << "the target has no dot products";
  EXPECT_EQ(Multiplied({.terms = 33}), "f32 f32") << "no whole pairs";
  EXPECT_EQ(Multiplied({.terms = 4}), "f32 f32") << "too few terms";
  EXPECT_EQ(Multiplied({.constant = false}), "f32 f32");
  EXPECT_EQ(Multiplied({.data = kF32}), "f32 f32");
  EXPECT_EQ(Multiplied({.weights = DType::Float(16)}), "f32 f32");
  EXPECT_EQ(Multiplied({.conv = true, .groups = 2}), "f32 f32");
}

// Returns the types of the operands of a product of f32 after all three passes.
std::string Rounded(Product p, bool multiplies_bf16, bool asked = true) {
  p.data = p.weights = kF32;
  const PassEnv env{.multiplies_bf16 = multiplies_bf16, .rounds_to_bf16 = asked, .converts_factors = true};
  Graph g = GraphOf(p);
  for (auto* pass : {RoundProducts, HalfWeights, Bf16Products}) {
    const Result<Graph> now = pass(g, env);
    if (!now.ok()) return now.error().Text();
    g = *now;
  }
  return TypesOf(g);
}

TEST(RoundProducts, RoundsWhatBecomesFaster) {
  EXPECT_EQ(Rounded({}, true), "bf16 bf16");
  EXPECT_EQ(Rounded({.conv = true}, true), "bf16 bf16");
  EXPECT_EQ(Rounded({.rows = 2}, true), "f32 bf16") << "only the weights, which come from memory";
  EXPECT_EQ(Rounded({.rows = 2}, false), "f32 bf16");
}

TEST(RoundProducts, LeavesOthersAsTheyAre) {
  EXPECT_EQ(Rounded({}, false), "f32 f32") << "the target has no dot products";
  EXPECT_EQ(Rounded({}, true, false), "f32 f32") << "nobody asks for it";
  EXPECT_EQ(Rounded({.rows = 2}, true, false), "f32 f32");
  EXPECT_EQ(Rounded({.constant = false}, true), "f32 f32");
  EXPECT_EQ(Rounded({.terms = 33}, true), "f32 f32");
}

// Each value of the chain is used twice, so the number of paths through it doubles with each sum.
TEST(RoundProducts, LooksAtEachConstantOnce) {
  GraphBuilder b;
  const auto weights_of = [&](ValueId w) {
    for (int i = 0; i < 64; ++i) w = b.Must(Op::kAdd, {w, w});
    return w;
  };
  const ValueId x = b.Input("x", {kF32, {8, 32}});
  const ValueId constant =
      weights_of(b.AddConstant("w", TensorValue::FromNumbers(kF32, {32, 6}, std::vector(192, 1.))));
  const ValueId computed = weights_of(b.Input("v", {kF32, {32, 6}}));
  b.Output(b.Must(Op::kMatmul, {x, constant}), "y");
  b.Output(b.Must(Op::kMatmul, {x, computed}), "z");
  const Graph g = RoundProducts(b.Finish(), {.multiplies_bf16 = true, .rounds_to_bf16 = true}).value();
  EXPECT_EQ(std::ranges::count(g.nodes, Op::kCast, &Node::op), 4)
      << "both operands of the first product, there and back";
}

}  // namespace
}  // namespace autotune::graph
