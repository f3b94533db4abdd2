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
  bool constant = true;                       // of the weights; computed ones belong to attention
  bool rounds_weights = false;                // whether they are a conversion of a constant of floats
  bool reshaped = false, transposed = false;  // of the weights, as Gemm has them
};

// A convolution of dequantized numbers.
struct Convolution {
  int64_t channels = 8, groups = 1, filters = 5, kernel = 3;
  Shape x_scale = {}, w_scale = {5, 1, 1, 1};
  Layout layout = Layout::kNCHW;
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
    const bool fits = type.IsSigned() ? zero >= -128 && zero <= 127 : zero >= 0 && zero <= 255;
    const ValueId number = Numbers(fits ? type : kI32, {}, zero, 0);
    if (zero != 0) x = b.Must(Op::kSub, {x, fits ? b.Must(Op::kCast, {number}, CastAttrs{kI32}) : number});
    return b.Must(Op::kMul, {b.Must(Op::kCast, {x}, CastAttrs{kF32}), Numbers(kF32, scale, 0.5, 0.25)});
  }
  Graph Make(const Product& p) {
    const Shape rows = p.reshaped ? Shape{1, p.m, p.k} : Shape{p.m, p.k};
    ValueId x = Dequantized(b.Input("x", {p.type, rows}), p.type, p.zero, p.x_scale);
    if (p.reshaped) x = b.Must(Op::kReshape, {x}, ReshapeAttrs{{p.m, p.k}});
    const double low = p.weights.IsSigned() ? -128 : 0;
    const Shape shape = p.transposed ? Shape{p.n, p.k} : Shape{p.k, p.n};
    const ValueId bytes = p.rounds_weights ? b.Must(Op::kCast, {Numbers(kF32, shape, 0, 1)}, CastAttrs{p.weights})
                          : p.constant     ? Numbers(p.weights, shape, low, 1)
                                           : b.Input("w", {p.weights, shape});
    ValueId w = Dequantized(bytes, p.weights, p.weights_zero, p.w_scale);
    if (p.transposed) w = b.Transpose(w, {1, 0});
    b.Output(b.Must(Op::kMatmul, {x, w}), "y");
    return b.Finish();
  }
  Graph Make(const Convolution& p) {
    const ValueId x = Dequantized(b.Input("x", {kU8, {1, p.channels, 5, 6}}), kU8, 100, p.x_scale);
    std::vector<double> numbers;
    const Shape shape = {p.filters, p.channels / p.groups, p.kernel, p.kernel};
    for (int64_t i = 0; i < reference::Count(shape); ++i) numbers.push_back(static_cast<double>(i * 37 % 256) - 128);
    const ValueId w = Dequantized(b.AddConstant("", TensorValue::FromNumbers(kI8, shape, numbers)), kI8, 0, p.w_scale);
    ConvAttrs attrs{.pads = Shape(4, 1), .groups = p.groups, .layout = p.layout};
    b.Output(b.Must(Op::kConv2d, {x, w}, attrs), "y");
    return b.Finish();
  }
};

bool IsOfIntegers(const Graph& g) {
  for (const Node& node : g.nodes)
    if (node.op == Op::kMatmul || node.op == Op::kConv2d) return g.Spec(node.output).dtype == kI32;
  return false;
}

// Rewrites the product, and expects the same numbers.
template <class P>
bool BecomesIntegers(const P& p, const PassEnv& env) {
  Quantized maker(5);
  const Graph g = maker.Make(p);
  const Result<Graph> now = QuantizedProducts(g, env);
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
template <class P>
bool BecomesIntegers(const P& p, bool multiplies_bytes = true) {
  return BecomesIntegers(p, {.multiplies_bytes = multiplies_bytes});
}

TEST(QuantizedProducts, ProductsWithConstantsBecomeIntegers) {
  EXPECT_TRUE(BecomesIntegers(Product{}));
  EXPECT_TRUE(BecomesIntegers(Product{.type = kI8, .zero = 0}));
  EXPECT_TRUE(BecomesIntegers(Product{.type = kI8, .zero = -7}));
  EXPECT_TRUE(BecomesIntegers(Product{.weights = kU8, .weights_zero = 128}));
  EXPECT_TRUE(BecomesIntegers(Product{.w_scale = {}}));
  EXPECT_TRUE(BecomesIntegers(Product{.w_scale = {5}}));
  EXPECT_TRUE(BecomesIntegers(Product{.x_scale = {1}}));
  EXPECT_TRUE(BecomesIntegers(Product{.reshaped = true}));
  EXPECT_TRUE(BecomesIntegers(Product{.w_scale = {5, 1}, .transposed = true}));
  EXPECT_TRUE(BecomesIntegers(Product{.k = 18, .n = 64, .w_scale = {}})) << "zeros make it whole groups";
}

TEST(QuantizedProducts, ConvolutionsBecomeIntegers) {
  EXPECT_TRUE(BecomesIntegers(Convolution{}));
  EXPECT_TRUE(BecomesIntegers(Convolution{.w_scale = {}}));
  EXPECT_TRUE(BecomesIntegers(Convolution{.channels = 3, .x_scale = {1}}));
  EXPECT_TRUE(BecomesIntegers(Convolution{.channels = 5, .groups = 5})) << "few terms are exact in f32";
  EXPECT_TRUE(BecomesIntegers(Convolution{.channels = 1200, .groups = 2, .filters = 16, .w_scale = {}}))
      << "filters of a group fill a vector";
  EXPECT_TRUE(BecomesIntegers(Convolution{.channels = 1, .kernel = 1})) << "so are these";
}

TEST(QuantizedProducts, OtherConvolutionsStayFloats) {
  EXPECT_FALSE(BecomesIntegers(Convolution{}, false)) << "the target has no dot products";
  EXPECT_FALSE(BecomesIntegers(Convolution{.x_scale = {1, 8, 1, 1}})) << "a scale for each channel";
  EXPECT_FALSE(BecomesIntegers(Convolution{.channels = 5, .filters = 5, .w_scale = {1, 5, 1, 1}})) << "of the image";
  EXPECT_FALSE(BecomesIntegers(Convolution{.channels = 1200, .groups = 5, .w_scale = {}})) << "not exact in f32";
  EXPECT_FALSE(BecomesIntegers(Convolution{.channels = 1206, .groups = 2, .filters = 16, .w_scale = {}}))
      << "nor these";
}

// For targets that multiply words instead of bytes, floats stay where they are faster.
TEST(QuantizedProducts, ProductsBecomeIntegersWhereWordsAreFaster) {
  const auto becomes = [](const auto& p, bool winograd = true) {
    return BecomesIntegers(p, {.multiplies_words = true, .winograd = winograd});
  };
  EXPECT_TRUE(becomes(Product{.m = 5}));
  EXPECT_TRUE(becomes(Product{.m = 5, .k = 18}));
  EXPECT_FALSE(becomes(Product{.m = 4})) << "few rows need the bandwidth of memory";
  EXPECT_FALSE(becomes(Product{.m = 5, .k = 14})) << "few terms";
  EXPECT_FALSE(becomes(Product{.m = 64, .k = 16, .w_scale = {}, .constant = false})) << "floats are one kernel";
  EXPECT_TRUE(becomes(Convolution{.channels = 16, .kernel = 1}));
  EXPECT_TRUE(becomes(Convolution{.kernel = 5}));
  EXPECT_FALSE(becomes(Convolution{.channels = 6, .kernel = 5})) << "few channels";
  EXPECT_FALSE(becomes(Convolution{.channels = 5, .groups = 5})) << "of each channel";
  EXPECT_FALSE(becomes(Convolution{})) << "Winograd's algorithm is faster";
  EXPECT_TRUE(becomes(Convolution{}, /*winograd=*/false));
}

TEST(QuantizedProducts, ProductsOfComputedNumbersBecomeIntegers) {
  for (const DType type : {kU8, kI8}) {
    for (const DType weights : {kU8, kI8}) {
      const Product p{.type = type, .weights = weights, .m = 32, .zero = 17, .w_scale = {1}, .constant = false};
      EXPECT_TRUE(BecomesIntegers(p));
      Product other = p;
      other.transposed = true;
      EXPECT_TRUE(BecomesIntegers(other));
      other.reshaped = true;
      EXPECT_TRUE(BecomesIntegers(other));
      other.weights_zero = 100, other.k = 64;
      EXPECT_TRUE(BecomesIntegers(other)) << "zero points of any byte";
    }
  }
}

TEST(QuantizedProducts, OtherProductsOfComputedNumbersStayFloats) {
  const Product p{.m = 32, .w_scale = {}, .constant = false};
  EXPECT_TRUE(BecomesIntegers(p));
  Product other = p;
  other.m = 31;
  EXPECT_FALSE(BecomesIntegers(other)) << "few rows";
  other = p, other.rounds_weights = true;
  EXPECT_FALSE(BecomesIntegers(other)) << "a constant that is not folded yet";
  other = p;
  EXPECT_FALSE(BecomesIntegers(p, false)) << "the target has no dot products";
  other.w_scale = {1, 5};
  EXPECT_FALSE(BecomesIntegers(other)) << "a scale for each column";
  other = p, other.k = 18;
  EXPECT_FALSE(BecomesIntegers(other)) << "no whole number of groups";
  other = p, other.zero = 1000000;
  EXPECT_FALSE(BecomesIntegers(other)) << "sums of i32 might wrap around";
  other = p, other.x_scale = {32, 1};
  EXPECT_FALSE(BecomesIntegers(other)) << "a scale for each row";
}

TEST(QuantizedProducts, OthersStayFloats) {
  EXPECT_FALSE(BecomesIntegers(Product{}, false)) << "the target has no dot products";
  EXPECT_FALSE(BecomesIntegers(Product{.constant = false}));
  EXPECT_FALSE(BecomesIntegers(Product{.k = 18, .w_scale = {}})) << "no whole number of groups";
  EXPECT_FALSE(BecomesIntegers(Product{.weights = kU8, .k = 64})) << "up to 255";
  EXPECT_FALSE(BecomesIntegers(Product{.weights = kI8, .weights_zero = 1})) << "down to -129";
  EXPECT_FALSE(BecomesIntegers(Product{.zero = 1000000})) << "sums of i32 might wrap around";
  EXPECT_TRUE(BecomesIntegers(Product{.type = kI8, .zero = 255})) << "but not with this one";
  EXPECT_FALSE(BecomesIntegers(Product{.x_scale = {3, 1}})) << "a scale for each row";
  EXPECT_FALSE(BecomesIntegers(Product{.n = 8, .w_scale = {16, 1}})) << "a scale for each step";
  EXPECT_FALSE(BecomesIntegers(Product{.n = 8, .w_scale = {1, 16}, .transposed = true})) << "so are these";
}

}  // namespace
}  // namespace autotune::graph
