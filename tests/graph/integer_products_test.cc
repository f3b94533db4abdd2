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
};

Graph Make(const Product& p) {
  Maker maker(7);
  ValueId x = maker.b.Input("x", {p.type, p.reshaped ? Shape{1, p.m, p.k} : Shape{p.m, p.k}});
  x = maker.b.Must(Op::kCast, {x}, CastAttrs{kI32});
  const int64_t zeros = reference::Count(p.zero_shape);
  if (p.zero == Product::kConstant) {
    std::vector<double> numbers;
    for (int64_t i = 0; i < zeros; ++i) numbers.push_back(static_cast<double>(100 - i));
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
    if (node.op == Op::kMatmul) return g.Spec(node.inputs[0]).dtype == kU8 && g.Spec(node.inputs[1]).dtype == kI8;
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

TEST(IntegerProducts, OthersStay) {
  using enum Product::Zero;
  for (const Product& p : {Product{.largest = 128}, Product{.k = 18}, Product{.k = 12}, Product{.zero_shape = {16}},
                           Product{.zero_shape = {1, 3, 1}, .zero = kInput, .reshaped = true}}) {
    const Graph g = Make(p), now = Rewritten(g);
    EXPECT_FALSE(IsOfBytes(now)) << GraphText(now);
    ExpectEqual(g, now);
  }
  EXPECT_FALSE(IsOfBytes(Rewritten(Make({}), false))) << "the target has no dot products";
}

}  // namespace
}  // namespace autotune::graph
