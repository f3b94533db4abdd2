// Products of few rows with dequantized weights whose scale belongs to a column: the weights stay bytes, and the
// products equal those of floats.
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/pass.h"
#include "tests/graph/maker.h"

namespace autotune::graph {
namespace {

constexpr DType kU8 = DType::UInt(8), kI8 = DType::Int(8), kI32 = DType::Int(32), kF32 = DType::Float(32);

struct Product {
  int64_t rows = 1, terms = 24, columns = 20;
  DType weights = kI8;
  double low = -128;              // of the weights, which have 256 values
  Shape scales = {1, 20}, zeros;  // `zeros` is empty: there are none
  bool transposed = false, constant = true;
};

// Checks that the pass keeps the product, and returns the type of its weights.
DType WeightsOf(const Product& p, bool converts_factors = true) {
  Maker m(4);
  const auto numbers = [&](DType type, const Shape& shape, double first, double step, int64_t period) {
    std::vector<double> made;
    for (int64_t i = 0; i < reference::Count(shape); ++i)
      made.push_back(first + step * static_cast<double>(i % period));
    return m.b.AddConstant("", TensorValue::FromNumbers(type, shape, made));
  };
  const Shape shape = p.transposed ? Shape{p.columns, p.terms} : Shape{p.terms, p.columns};
  const ValueId x = m.b.Input("x", F32({p.rows, p.terms}));
  ValueId w = p.constant ? numbers(p.weights, shape, p.low, 1, 256) : m.b.Input("w", {p.weights, shape});
  w = m.b.Must(Op::kCast, {w}, CastAttrs{kI32});
  if (!p.zeros.empty()) {
    const ValueId zeros = numbers(p.weights, p.zeros, 127, 1, 2);
    w = m.b.Must(Op::kSub, {w, m.b.Must(Op::kCast, {zeros}, CastAttrs{kI32})});
  }
  w = m.b.Must(Op::kMul, {m.b.Must(Op::kCast, {w}, CastAttrs{kF32}), numbers(kF32, p.scales, 0.5, 0.25, 7)});
  if (p.transposed) w = m.b.Transpose(w, {1, 0});
  m.b.Output(m.b.Must(Op::kMatmul, {x, w}), "y");
  const Graph now =
      ExpectKept(m.b.Finish(), {{"block_products", BlockProducts}}, {.converts_factors = converts_factors});
  const auto product =
      std::ranges::find_if(now.nodes, [](const Node& n) { return n.op == Op::kMatmul || n.op == Op::kBlockMatmul; });
  return now.Spec(product->inputs[1]).dtype;
}

TEST(ColumnWeights, OfFewRowsStayBytes) {
  EXPECT_EQ(WeightsOf({}), kI8);
  EXPECT_EQ(WeightsOf({.rows = 4, .terms = 33, .columns = 16, .scales = {1, 16}}), kI8);
  EXPECT_EQ(WeightsOf({.scales = {20}}), kI8);
  EXPECT_EQ(WeightsOf({.scales = {1}}), kI8);
  EXPECT_EQ(WeightsOf({.scales = {20, 1}, .transposed = true}), kI8);
  EXPECT_EQ(WeightsOf({.scales = {1, 1}, .transposed = true}), kI8);
}

TEST(ColumnWeights, LoseTheirZeroPoints) {
  EXPECT_EQ(WeightsOf({.terms = 12, .weights = kU8, .low = 0, .zeros = {1}}), kI8);
  EXPECT_EQ(WeightsOf({.weights = kU8, .low = 0, .zeros = {1}}), kF32) << "from -127 to 128";
  EXPECT_EQ(WeightsOf({.terms = 6, .weights = kU8, .low = 0, .zeros = {1, 20}}), kI8);
  EXPECT_EQ(WeightsOf({.terms = 6, .weights = kU8, .low = 0, .scales = {20, 1}, .zeros = {20, 1}, .transposed = true}),
            kI8);
}

TEST(ColumnWeights, OthersBecomeFloats) {
  EXPECT_EQ(WeightsOf({.rows = 5}), kF32) << "each weight is used more often";
  EXPECT_EQ(WeightsOf({.columns = 15, .scales = {1, 15}}), kF32) << "no vector";
  EXPECT_EQ(WeightsOf({.scales = {24, 1}}), kF32) << "a scale for each term";
  EXPECT_EQ(WeightsOf({.constant = false}), kF32);
  EXPECT_EQ(WeightsOf({}, false), kF32) << "the target converts none";
}

}  // namespace
}  // namespace autotune::graph
