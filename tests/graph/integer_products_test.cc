// Integer products as products of bytes: they agree with the products of wide integers bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/pass.h"
#include "tests/graph/maker.h"

namespace autotune::graph {
namespace {

constexpr DType kU8 = DType::UInt(8), kI8 = DType::Int(8), kI32 = DType::Int(32);

// (x - zero) w, as the importer makes it. The zero point is a constant, an input, or absent.
struct Product {
  DType type = kU8;
  int64_t m = 3, k = 16, n = 5;
  Shape zero_shape = {};
  enum Zero { kNone, kConstant, kInput } zero = kConstant;
  double largest = 127;  // of the weights
  bool reshaped = false;
  double first_zero_point = 100;  // of a constant; the others count down
};

Graph Make(const Product& p) {
  Maker maker(7);
  ValueId x = maker.b.Input("x", {p.type, p.reshaped ? Shape{1, p.m, p.k} : Shape{p.m, p.k}});
  x = maker.b.Must(Op::kCast, {x}, CastAttrs{kI32});
  const int64_t zeros = reference::Count(p.zero_shape);
  if (p.zero == Product::kConstant) {
    std::vector<double> numbers;
    for (int64_t i = 0; i < zeros; ++i) numbers.push_back(p.first_zero_point - static_cast<double>(i));
    x = maker.b.Must(Op::kSub, {x, maker.b.AddConstant("", TensorValue::FromNumbers(kI32, p.zero_shape, numbers))});
  } else if (p.zero == Product::kInput) {
    x = maker.b.Must(Op::kSub, {x, maker.b.Input("z", {kI32, p.zero_shape})});
  }
  if (p.reshaped) x = maker.b.Must(Op::kReshape, {x}, ReshapeAttrs{{p.m, p.k}});
  std::vector<double> weights;
  for (int64_t i = 0; i < p.k * p.n; ++i)
    weights.push_back(i == 0 ? p.largest : static_cast<double>(i * 37 % 256) - 128);
  const ValueId w = maker.b.AddConstant("w", TensorValue::FromNumbers(kI32, {p.k, p.n}, weights));
  maker.b.Output(maker.b.Must(Op::kMatmul, {x, w}), "y");
  return maker.b.Finish();
}

Graph Rewritten(const Graph& g, bool multiplies_bytes = true) {
  const Result<Graph> now = IntegerProducts(g, {.multiplies_bytes = multiplies_bytes});
  EXPECT_TRUE(now.ok());
  EXPECT_TRUE(CheckGraph(*now).ok());
  return *now;
}

bool IsOfBytes(const Graph& g) {
  for (const Node& node : g.nodes)
    if (node.op == Op::kMatmul || node.op == Op::kBatchMatmul || node.op == Op::kConv2d)
      return g.Spec(node.inputs[0]).dtype == kU8 && g.Spec(node.inputs[1]).dtype == kI8;
  return false;
}

// Evaluates both graphs on numbers of the whole range.
void ExpectEqual(const Graph& g, const Graph& now) {
  std::vector<reference::Tensor> in;
  Rng rng(3);
  for (ValueId v : g.inputs) {
    const TensorSpec& spec = g.Spec(v);
    reference::Tensor t{spec.shape, {}};
    t.dtype = spec.dtype;
    const int64_t low = spec.dtype == kU8 ? 0 : -128;
    for (int64_t i = 0; i < reference::Count(spec.shape); ++i)
      t.data.push_back(static_cast<double>(low + static_cast<int64_t>(rng.Below(256))));
    in.push_back(std::move(t));
  }
  EXPECT_EQ(reference::Evaluate(now, in)[0].data, reference::Evaluate(g, in)[0].data) << GraphText(now);
}

TEST(IntegerProducts, ProductsOfCenteredBytesBecomeProductsOfBytes) {
  using enum Product::Zero;
  for (const DType type : {kU8, kI8}) {
    for (const Product& p :
         {Product{.type = type}, Product{.type = type, .zero = kNone}, Product{.type = type, .zero = kInput},
          Product{.type = type, .m = 1, .k = 64, .n = 1}, Product{.type = type, .zero_shape = {3, 1}, .zero = kInput},
          Product{.type = type, .zero_shape = {3, 1}}, Product{.type = type, .reshaped = true}}) {
      const Graph g = Make(p), now = Rewritten(g);
      EXPECT_TRUE(IsOfBytes(now)) << GraphText(now);
      ExpectEqual(g, now);
    }
  }
}

// Zero points of 0, as those of what a Relu made, need no correction. Signed bytes do, since they are moved.
TEST(IntegerProducts, ZeroPointsOfZeroCostNothing) {
  const auto corrections = [](const Product& p) {
    const Graph g = Make(p), now = Rewritten(g);
    EXPECT_TRUE(IsOfBytes(now));
    ExpectEqual(g, now);
    return std::ranges::count(now.nodes, Op::kSub, &Node::op);
  };
  EXPECT_EQ(corrections({.first_zero_point = 0}), 0);
  EXPECT_EQ(corrections({.first_zero_point = 1}), 1);
  EXPECT_EQ(corrections({.zero_shape = {3, 1}, .first_zero_point = 0}), 1) << "only the first row's is 0";
  EXPECT_EQ(corrections({.type = kI8, .first_zero_point = 0}), 1);
  EXPECT_EQ(corrections({.type = kI8, .first_zero_point = -128}), 0) << "moved, it is 0";
}

// (x - zero) (w - zero) of two computed operands, as in attention. The zero points are constants, inputs, or absent.
struct Computed {
  DType x = kU8, w = kI8;
  Product::Zero x_zero = Product::kConstant, w_zero = Product::kNone;
  Shape lead = {};  // of both operands
  int64_t m = 32, k = 16, n = 5;
  Shape zero_shape = {};
  double zero_point = 100;
  bool transposed = false;
};

Graph Make(const Computed& p) {
  Maker maker(7);
  const auto operand = [&](const char* name, DType type, Shape shape, Product::Zero zero) {
    shape.insert(shape.begin(), p.lead.begin(), p.lead.end());
    ValueId v = maker.b.Must(Op::kCast, {maker.b.Input(name, {type, shape})}, CastAttrs{kI32});
    const std::vector<double> points(static_cast<size_t>(reference::Count(p.zero_shape)), p.zero_point);
    if (zero == Product::kConstant)
      v = maker.b.Must(Op::kSub, {v, maker.b.AddConstant("", TensorValue::FromNumbers(kI32, p.zero_shape, points))});
    if (zero == Product::kInput)
      v = maker.b.Must(Op::kSub, {v, maker.b.Input(std::string(name) + "z", {kI32, p.zero_shape})});
    return v;
  };
  const ValueId x = operand("x", p.x, {p.m, p.k}, p.x_zero);
  ValueId w = operand("w", p.w, p.transposed ? Shape{p.n, p.k} : Shape{p.k, p.n}, p.w_zero);
  if (p.transposed) w = maker.b.Transpose(w, p.lead.empty() ? Shape{1, 0} : Shape{0, 2, 1});
  maker.b.Output(maker.b.Must(p.lead.empty() ? Op::kMatmul : Op::kBatchMatmul, {x, w}), "y");
  return maker.b.Finish();
}

TEST(IntegerProducts, ProductsOfComputedBytesBecomeProductsOfBytes) {
  using enum Product::Zero;
  for (const DType x : {kU8, kI8}) {
    for (const DType w : {kU8, kI8}) {
      for (const Product::Zero x_zero : {kNone, kConstant, kInput}) {
        for (const Product::Zero w_zero : {kNone, kConstant, kInput}) {
          for (const Computed& p :
               {Computed{x, w, x_zero, w_zero}, Computed{x, w, x_zero, w_zero, {2}, 33, 20, 3},
                Computed{x, w, x_zero, w_zero, {2}, 33, 18, 64},
                Computed{.x = x, .w = w, .x_zero = x_zero, .w_zero = w_zero, .lead = {3}, .transposed = true},
                Computed{.x = x, .w = w, .x_zero = x_zero, .w_zero = w_zero, .zero_point = 1 << 20}}) {
            const Graph g = Make(p), now = Rewritten(g);
            EXPECT_TRUE(IsOfBytes(now)) << GraphText(now);
            ExpectEqual(g, now);
          }
        }
      }
    }
  }
}

TEST(IntegerProducts, OtherComputedProductsStay) {
  for (const Computed& p :
       {Computed{.k = 12}, Computed{.k = 18, .n = 31}, Computed{.m = 31}, Computed{.zero_shape = {32, 1}},
        Computed{.x_zero = Product::kNone, .w_zero = Product::kInput, .zero_shape = {5}}}) {
    const Graph g = Make(p), now = Rewritten(g);
    EXPECT_FALSE(IsOfBytes(now)) << GraphText(now);
    ExpectEqual(g, now);
  }
  EXPECT_FALSE(IsOfBytes(Rewritten(Make(Computed{}), false))) << "the target has no dot products";
}

// A convolution of bytes minus a zero point, as the importer and the change of layouts make it.
struct Convolution {
  DType type = kU8;
  int64_t channels = 16, groups = 1, filters = 6, kernel = 3, pad = 1, stride = 1;
  Product::Zero zero = Product::kConstant;
  double zero_point = 100;
  bool transposed = false;  // from NCHW, behind the zero point
};

Graph Make(const Convolution& p) {
  Maker maker(11);
  const Shape image = {2, 7, 6, p.channels};
  ValueId x = maker.b.Input("x", {p.type, p.transposed ? Shape{2, p.channels, 7, 6} : image});
  x = maker.b.Must(Op::kCast, {x}, CastAttrs{kI32});
  if (p.zero == Product::kConstant)
    x = maker.b.Must(Op::kSub, {x, maker.b.AddConstant("", TensorValue::FromNumbers(kI32, {}, {p.zero_point}))});
  if (p.zero == Product::kInput) x = maker.b.Must(Op::kSub, {x, maker.b.Input("z", {kI32, {1, 1, 1, 1}})});
  if (p.transposed) x = maker.b.Transpose(x, {0, 2, 3, 1});
  const Shape shape = {p.kernel, p.kernel, p.channels / p.groups, p.filters};
  std::vector<double> weights;
  for (int64_t i = 0; i < reference::Count(shape); ++i) weights.push_back(static_cast<double>(i * 37 % 256) - 128);
  const ValueId w = maker.b.AddConstant("w", TensorValue::FromNumbers(kI32, shape, weights));
  ConvAttrs attrs{.groups = p.groups, .layout = Layout::kNHWC};
  attrs.pads = Shape(4, p.pad);
  attrs.strides = Shape(2, p.stride);
  maker.b.Output(maker.b.Must(Op::kConv2d, {x, w}, attrs), "y");
  return maker.b.Finish();
}

TEST(IntegerProducts, ConvolutionsOfCenteredBytesBecomeConvolutionsOfBytes) {
  using enum Product::Zero;
  for (const DType type : {kU8, kI8}) {
    for (const Convolution& p :
         {Convolution{.type = type}, Convolution{.type = type, .zero = kNone}, Convolution{.type = type, .stride = 2},
          Convolution{.type = type, .channels = 3}, Convolution{.type = type, .channels = 2, .transposed = true},
          Convolution{.type = type, .kernel = 1, .pad = 0, .zero = kInput}, Convolution{.type = type, .filters = 1},
          Convolution{.type = type, .groups = 2, .filters = 16}, Convolution{.type = type, .groups = 4, .filters = 32},
          Convolution{.type = type, .zero_point = type == kU8 ? 0.0 : -128.0}}) {
      const Graph g = Make(p), now = Rewritten(g);
      EXPECT_TRUE(IsOfBytes(now)) << GraphText(now);
      ExpectEqual(g, now);
    }
  }
}

TEST(IntegerProducts, OtherConvolutionsStay) {
  using enum Product::Zero;
  for (const Convolution& p :
       {Convolution{.groups = 2}, Convolution{.channels = 12, .groups = 2, .filters = 16},
        Convolution{.channels = 6, .groups = 6}, Convolution{.channels = 1}, Convolution{.zero = kInput},
        Convolution{.zero_point = 256}, Convolution{.zero_point = -1}, Convolution{.channels = 8, .kernel = 1},
        Convolution{.type = kI8, .zero_point = 128}}) {
    const Graph g = Make(p), now = Rewritten(g);
    EXPECT_FALSE(IsOfBytes(now)) << GraphText(now);
    ExpectEqual(g, now);
  }
}

TEST(IntegerProducts, RowsOfAnyLengthGetZerosWhereColumnsAreMany) {
  for (int64_t k : {17, 18, 19, 21}) {
    const Graph g = Make(Product{.k = k, .n = 64}), now = Rewritten(g);
    EXPECT_TRUE(IsOfBytes(now)) << GraphText(now);
    ExpectEqual(g, now);
    EXPECT_FALSE(IsOfBytes(Rewritten(Make(Product{.k = k, .n = 63}))));
  }
}

TEST(IntegerProducts, OthersStay) {
  using enum Product::Zero;
  for (const Product& p : {Product{.largest = 128}, Product{.k = 18}, Product{.k = 12}, Product{.zero_shape = {16}},
                           Product{.zero_shape = {1, 3, 1}, .zero = kInput, .reshaped = true}}) {
    const Graph g = Make(p), now = Rewritten(g);
    EXPECT_FALSE(IsOfBytes(now)) << GraphText(now);
    ExpectEqual(g, now);
  }
  EXPECT_FALSE(IsOfBytes(Rewritten(Make(Product{}), false))) << "the target has no dot products";
}

}  // namespace
}  // namespace autotune::graph
