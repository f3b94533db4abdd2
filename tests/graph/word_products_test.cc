// Products of small integers as products of words: they agree with the products of wide integers bit for bit.
#include <gtest/gtest.h>

#include "graph/pass.h"
#include "tests/graph/maker.h"

namespace autotune::graph {
namespace {

constexpr DType kU8 = DType::UInt(8), kI8 = DType::Int(8), kI16 = DType::Int(16), kI32 = DType::Int(32);

// (x - zero) w, as the importer makes it, for matrices or images.
struct Product {
  DType type = kU8;
  int64_t rows = 6, terms = 16, columns = 5;
  int64_t kernel = 0, groups = 1;  // of a convolution; 0: it multiplies matrices
  double zero = 100, largest = 127;
  bool zero_is_input = false, reshaped = false, constant = true;
};

class Integers : public Maker {
 public:
  using Maker::Maker;
  ValueId Weights(const Shape& shape, double largest) {
    std::vector<double> numbers;
    for (int64_t i = 0; i < reference::Count(shape); ++i)
      numbers.push_back(i == 0 ? largest : static_cast<double>(i * 37 % 256) - 128);
    return b.AddConstant("w", TensorValue::FromNumbers(kI32, shape, numbers));
  }
  Graph Make(const Product& p) {
    const Shape rows = p.kernel > 0 ? Shape{1, p.rows, 7, p.terms} : Shape{p.rows, p.terms};
    Shape given = rows;
    if (p.reshaped) given.insert(given.begin(), 1);
    ValueId x = b.Must(Op::kCast, {b.Input("x", {p.type, given})}, CastAttrs{kI32});
    x = b.Must(Op::kSub, {x, p.zero_is_input ? b.Input("z", {kI32, {}})
                                             : b.AddConstant("", TensorValue::FromNumbers(kI32, {}, {p.zero}))});
    if (p.reshaped) x = b.Must(Op::kReshape, {x}, ReshapeAttrs{rows});
    ValueId y = -1;
    if (p.kernel > 0) {
      const ValueId w = Weights({p.kernel, p.kernel, p.terms / p.groups, p.columns}, p.largest);
      y = b.Must(Op::kConv2d, {x, w}, ConvAttrs{.pads = Shape(4, 1), .groups = p.groups, .layout = Layout::kNHWC});
    } else {
      const ValueId w = p.constant ? Weights({p.terms, p.columns}, p.largest)
                                   : b.Must(Op::kCast, {b.Input("w", {kI8, {p.terms, p.columns}})}, CastAttrs{kI32});
      y = b.Must(Op::kMatmul, {x, w});
    }
    b.Output(y, "y");
    return b.Finish();
  }
};

const Node* ProductOf(const Graph& g) {
  for (const Node& node : g.nodes)
    if (node.op == Op::kMatmul || node.op == Op::kConv2d) return &node;
  return nullptr;
}

// Evaluates both graphs on numbers of the whole range.
void ExpectEqual(const Graph& g, const Graph& now) {
  std::vector<reference::Tensor> in;
  Rng rng(3);
  for (const ValueId v : g.inputs) {
    const TensorSpec& spec = g.Spec(v);
    reference::Tensor t{spec.shape, {}};
    t.dtype = spec.dtype;
    for (int64_t i = 0; i < reference::Count(spec.shape); ++i)
      t.data.push_back(static_cast<double>(rng.Below(256)) - (spec.dtype == kU8 ? 0 : 128));
    in.push_back(std::move(t));
  }
  const auto want = reference::Evaluate(g, in), got = reference::Evaluate(now, in);
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].data, want[i].data) << GraphText(now);
}

Graph Rewritten(const Graph& g, const PassEnv& env = {.multiplies_words = true}) {
  const Result<Graph> now = WordProducts(g, env);
  EXPECT_TRUE(now.ok() && CheckGraph(*now).ok());
  ExpectEqual(g, *now);
  return *now;
}

bool BecomesWords(const Product& p, const PassEnv& env = {.multiplies_words = true}) {
  const Graph g = Integers(7).Make(p), now = Rewritten(g, env);
  const Node& product = *ProductOf(now);
  return now.Spec(product.inputs[0]).dtype == kI16 && now.Spec(product.inputs[1]).dtype == kI16;
}

TEST(WordProducts, ProductsOfSmallIntegersBecomeProductsOfWords) {
  for (const DType type : {kU8, kI8}) {
    EXPECT_TRUE(BecomesWords({.type = type}));
    EXPECT_TRUE(BecomesWords({.type = type, .reshaped = true}));
    EXPECT_TRUE(BecomesWords({.type = type, .kernel = 3}));
    EXPECT_TRUE(BecomesWords({.type = type, .columns = 16, .kernel = 3, .groups = 2}));
  }
  EXPECT_TRUE(BecomesWords({.terms = 17, .columns = 64})) << "a zero makes it whole pairs";
  EXPECT_TRUE(BecomesWords({.terms = 9, .kernel = 3})) << "so it does here";
  EXPECT_TRUE(BecomesWords({.largest = 32767})) << "weights of 16 bits";
  EXPECT_TRUE(BecomesWords({.zero = -32512})) << "255 + 32512 is the greatest i16";
}

TEST(WordProducts, OthersStay) {
  EXPECT_FALSE(BecomesWords({}, {})) << "the target has no dot products of words";
  EXPECT_FALSE(BecomesWords({.rows = 4})) << "few rows";
  EXPECT_FALSE(BecomesWords({.terms = 14})) << "few terms";
  EXPECT_FALSE(BecomesWords({.terms = 3, .kernel = 3})) << "few channels";
  EXPECT_FALSE(BecomesWords({.terms = 18, .columns = 18, .kernel = 3, .groups = 18})) << "of each channel";
  EXPECT_FALSE(BecomesWords({.largest = 32768})) << "no i16";
  EXPECT_FALSE(BecomesWords({.zero = -32513})) << "256 + 32512 is no i16";
  EXPECT_FALSE(BecomesWords({.zero_is_input = true})) << "any zero point of 32 bits";
  EXPECT_FALSE(BecomesWords({.rows = 64, .constant = false})) << "computed weights";
}

// A kernel that makes what a product reads stores words alone: its other readers take them, too.
TEST(WordProducts, OtherReadersTakeTheWords) {
  Integers maker(7);
  GraphBuilder& b = maker.b;
  const ValueId x = b.Must(Op::kCast, {b.Input("x", {kU8, {6, 16}})}, CastAttrs{kI32});
  b.Output(b.Must(Op::kMatmul, {x, maker.Weights({16, 5}, 127)}), "y");
  b.Output(b.Must(Op::kMatmul, {x, maker.Weights({16, 8}, 127)}), "z");
  b.Output(b.Must(Op::kCast, {x}, CastAttrs{DType::Float(32)}), "floats");
  const Graph now = Rewritten(b.Finish());
  int from_bytes = 0, to_words = 0;
  for (const Node& node : now.nodes) {
    from_bytes += now.Spec(node.inputs[0]).dtype == kU8;
    to_words += node.op == Op::kCast && now.Spec(node.output).dtype == kI16;
  }
  EXPECT_EQ(from_bytes, 1) << GraphText(now);
  EXPECT_EQ(to_words, 1) << GraphText(now);
}

// exact_products, which makes floats of other small integers, leaves words as they are.
TEST(WordProducts, StayWords) {
  const PassEnv env = {.multiplies_words = true};
  const Graph g = Integers(7).Make({}), words = Rewritten(g), now = ExactProducts(words, env).value();
  EXPECT_EQ(now.Spec(ProductOf(now)->inputs[1]).dtype, kI16) << GraphText(now);
  const Graph floats = ExactProducts(g, env).value();
  EXPECT_EQ(floats.Spec(ProductOf(floats)->inputs[1]).dtype, DType::Float(32));
}

}  // namespace
}  // namespace autotune::graph
