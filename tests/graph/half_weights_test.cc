// Products of few rows with weights of 16 bits: they equal those with widened weights bit for bit.
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/pass.h"
#include "tests/graph/maker.h"

namespace autotune::graph {
namespace {

constexpr DType kF16 = DType::Float(16), kF32 = DType::Float(32);

struct Product {
  int64_t rows = 1;
  DType weights = kF16;
  bool transposed = false, constant = true;
};

bool ReadsHalves(const Product& p, bool converts_factors = true) {
  Maker m(3);
  const Shape shape = p.transposed ? Shape{5, 24} : Shape{24, 5};
  const ValueId x = m.b.Input("x", F32({p.rows, 24}));
  std::vector<double> numbers;
  for (int64_t i = 0; i < reference::Count(shape); ++i) numbers.push_back(static_cast<double>(i % 17) / 8 - 1);
  ValueId w = p.constant ? m.b.AddConstant("w", TensorValue::FromNumbers(p.weights, shape, numbers))
                         : m.b.Input("w", {p.weights, shape});
  if (p.weights != kF32) w = m.b.Must(Op::kCast, {w}, CastAttrs{kF32});
  if (p.transposed) w = m.b.Transpose(w, {1, 0});
  m.b.Output(m.b.Must(Op::kMatmul, {x, w}), "y");
  const Graph g = m.b.Finish();
  const Graph now = ExpectKept(g, {{"half_weights", HalfWeights}}, {.converts_factors = converts_factors});
  const auto product = std::ranges::find(now.nodes, Op::kMatmul, &Node::op);
  return now.Spec(product->inputs[1]).dtype.IsHalf();
}

TEST(HalfWeights, OfFewRowsStayHalves) {
  EXPECT_TRUE(ReadsHalves({}));
  EXPECT_TRUE(ReadsHalves({.rows = 4}));
  EXPECT_TRUE(ReadsHalves({.weights = DType::BFloat16()}));
  EXPECT_TRUE(ReadsHalves({.transposed = true}));
}

TEST(HalfWeights, OthersAreWidened) {
  EXPECT_FALSE(ReadsHalves({.rows = 5})) << "each weight is used more often";
  EXPECT_FALSE(ReadsHalves({.weights = kF32}));
  EXPECT_FALSE(ReadsHalves({.constant = false}));
  EXPECT_FALSE(ReadsHalves({}, false)) << "the target converts none";
}

}  // namespace
}  // namespace autotune::graph
