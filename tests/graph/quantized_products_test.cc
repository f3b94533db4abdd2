// Products of dequantized numbers as scaled products of integers: they equal the products of floats
// where nothing is rounded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/pass.h"
#include "tests/graph/maker.h"

namespace autotune::graph {
namespace {

constexpr DType kU8 = DType::UInt(8), kI8 = DType::Int(8), kI32 = DType::Int(32), kF32 = DType::Float(32);

// A product of dequantized numbers, as the importer makes it.
struct Product {
  DType type = kU8, weights = kI8;
  int64_t m = 3, k = 16, n = 5;
  double zero = 131, weights_zero = 0;
  Shape x_scale = {}, w_scale = {1, 5};
  bool constant = true, reshaped = false;
};

class Quantized : public Maker {
 public:
  using Maker::Maker;
  ValueId Numbers(DType type, const Shape& shape, double first, double step) {
    std::vector<double> numbers;
    for (int64_t i = 0; i < reference::Count(shape); ++i) numbers.push_back(first + step * static_cast<double>(i));
    return b.AddConstant("", TensorValue::FromNumbers(type, shape, numbers));
  }
  ValueId Dequantized(ValueId bytes, DType type, double zero, const Shape& scale) {
    ValueId x = b.Must(Op::kCast, {bytes}, CastAttrs{kI32});
    if (zero != 0) x = b.Must(Op::kSub, {x, b.Must(Op::kCast, {Numbers(type, {}, zero, 0)}, CastAttrs{kI32})});
    return b.Must(Op::kMul, {b.Must(Op::kCast, {x}, CastAttrs{kF32}), Numbers(kF32, scale, 0.5, 0.25)});
  }
  Graph Make(const Product& p) {
    const Shape rows = p.reshaped ? Shape{1, p.m, p.k} : Shape{p.m, p.k};
    ValueId x = Dequantized(b.Input("x", {p.type, rows}), p.type, p.zero, p.x_scale);
    if (p.reshaped) x = b.Must(Op::kReshape, {x}, ReshapeAttrs{{p.m, p.k}});
    const double low = p.weights.IsSigned() ? -128 : 0;
    const ValueId bytes = p.constant ? Numbers(p.weights, {p.k, p.n}, low, 1) : b.Input("w", {p.weights, {p.k, p.n}});
    const ValueId w = Dequantized(bytes, p.weights, p.weights_zero, p.w_scale);
    b.Output(b.Must(Op::kMatmul, {x, w}), "y");
    return b.Finish();
  }
};

bool IsOfIntegers(const Graph& g) {
  for (const Node& node : g.nodes)
    if (node.op == Op::kMatmul) return g.Spec(node.output).dtype == kI32;
  return false;
}

// Rewrites the product, and expects the same numbers.
bool BecomesIntegers(const Product& p, bool multiplies_bytes = true) {
  Quantized maker(5);
  const Graph g = maker.Make(p);
  const Result<Graph> now = QuantizedProducts(g, {.multiplies_bytes = multiplies_bytes});
  EXPECT_TRUE(now.ok() && CheckGraph(*now).ok());
  std::vector<reference::Tensor> in;
  for (ValueId v : g.inputs) {
    const TensorSpec& spec = g.Spec(v);
    reference::Tensor t{spec.shape, {}};
    t.dtype = spec.dtype;
    for (int64_t i = 0; i < reference::Count(spec.shape); ++i)
      t.data.push_back(static_cast<double>(maker.rng.Below(256)) - (spec.dtype == kU8 ? 0 : 128));
    in.push_back(std::move(t));
  }
  const auto want = reference::Evaluate(g, in)[0].data, got = reference::Evaluate(*now, in)[0].data;
  EXPECT_EQ(got, want) << GraphText(*now);  // scales are multiples of 1/4, so nothing is rounded
  return IsOfIntegers(*now);
}

TEST(QuantizedProducts, ProductsWithConstantsBecomeIntegers) {
  EXPECT_TRUE(BecomesIntegers({}));
  EXPECT_TRUE(BecomesIntegers({.type = kI8, .zero = 0}));
  EXPECT_TRUE(BecomesIntegers({.type = kI8, .zero = -7}));
  EXPECT_TRUE(BecomesIntegers({.weights = kU8, .weights_zero = 128}));
  EXPECT_TRUE(BecomesIntegers({.w_scale = {}}));
  EXPECT_TRUE(BecomesIntegers({.w_scale = {5}}));
  EXPECT_TRUE(BecomesIntegers({.x_scale = {1}}));
  EXPECT_TRUE(BecomesIntegers({.reshaped = true}));
}

TEST(QuantizedProducts, OthersStayFloats) {
  EXPECT_FALSE(BecomesIntegers({}, false)) << "the target has no dot products";
  EXPECT_FALSE(BecomesIntegers({.constant = false}));
  EXPECT_FALSE(BecomesIntegers({.k = 18, .w_scale = {}})) << "no whole number of groups";
  EXPECT_FALSE(BecomesIntegers({.weights = kU8, .k = 64})) << "up to 255";
  EXPECT_FALSE(BecomesIntegers({.weights = kI8, .weights_zero = 1})) << "down to -129";
  EXPECT_FALSE(BecomesIntegers({.x_scale = {3, 1}})) << "a scale for each row";
  EXPECT_FALSE(BecomesIntegers({.n = 8, .w_scale = {16, 1}})) << "a scale for each step";
}

}  // namespace
}  // namespace autotune::graph
