// Products of small integers in floats: programs of all alternatives agree with the integers bit for bit, and products
// whose sums might be rounded stay integers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/pass.h"
#include "graph/to_te.h"
#include "ir/interp.h"
#include "tests/graph/maker.h"
#include "topi/alternatives.h"

namespace autotune::graph {
namespace {

constexpr DType kU8 = DType::UInt(8), kI8 = DType::Int(8), kI32 = DType::Int(32), kF32 = DType::Float(32);

// Returns numbers of the whole range of an 8-bit type; every fourth is one of its ends.
reference::Tensor FullRange(const Shape& shape, DType type, Rng& rng) {
  const int64_t low = type.IsSigned() ? -128 : 0;
  reference::Tensor t{shape, {}};
  t.dtype = type;
  for (int64_t i = 0; i < reference::Count(shape); ++i) {
    const bool end = rng.Below(4) == 0;
    t.data.push_back(static_cast<double>(low + static_cast<int64_t>(end ? 255 * rng.Below(2) : rng.Below(256))));
  }
  return t;
}

// Builds products of 8-bit integers, as the importer makes them.
class Integers : public Maker {
 public:
  using Maker::Maker;
  ValueId Wide(ValueId x) { return b.Must(Op::kCast, {x}, CastAttrs{kI32}); }
  ValueId Zero(int32_t zero) { return b.AddConstant("", TensorValue::Of<int32_t>({}, {zero})); }
  // An input of 8 bits minus its zero point.
  ValueId Input(const Shape& shape, DType type, int32_t zero = 0) {
    ValueId x = Wide(b.Input("x", {type, shape}));
    return zero == 0 ? x : b.Must(Op::kSub, {x, Zero(zero)});
  }
  ValueId Constant(const reference::Tensor& t) { return b.AddConstant("", reference::ToValue(t)); }
  ValueId Weight(const Shape& shape) {
    reference::Tensor t = FullRange(shape, kI8, rng);
    t.dtype = kI32;
    return Constant(t);
  }
  ValueId Filled(const Shape& shape, double even, double odd) {
    reference::Tensor t{shape, {}};
    t.dtype = kI32;
    for (int64_t i = 0; i < reference::Count(shape); ++i) t.data.push_back(i % 2 == 0 ? even : odd);
    return Constant(t);
  }
  Graph End(ValueId y) {
    b.Output(y, "y");
    return b.Finish();
  }
};

Graph Rewritten(const Graph& g) {
  Result<Graph> now = ExactProducts(g, {});
  EXPECT_TRUE(now.ok());
  return *now;
}

const Node* ProductOf(const Graph& g) {
  for (const Node& node : g.nodes) {
    if (node.op == Op::kMatmul || node.op == Op::kBatchMatmul || node.op == Op::kConv2d) return &node;
  }
  return nullptr;
}

bool IsInFloats(const Graph& g) { return g.Spec(ProductOf(g)->output).dtype == kF32; }

// Interprets the kernels of a graph one after the other, in all their alternatives, and expects `want`. Returns the
// names of the alternatives of all kernels.
std::vector<std::string> ExpectEqual(const Graph& g, const std::vector<reference::Tensor>& in,
                                     const reference::Tensor& want) {
  const Graph fused = *Fuse(g, {});
  const Target target = *Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=2");
  std::vector<reference::Tensor> values(fused.values.size());
  for (size_t i = 0; i < in.size(); ++i) values[fused.inputs[i]] = in[i];
  for (const Constant& c : fused.constants) values[c.value] = reference::FromValue(fused.ConstantValue(c));
  std::vector<std::string> names;
  for (const Node& node : fused.nodes) {
    const TensorSpec& spec = fused.Spec(node.output);
    const auto alternatives = LowerSubgraph(*node.body, target);
    EXPECT_TRUE(alternatives.ok());
    for (const Alternative& alternative : *alternatives) {
      names.push_back(alternative.name);
      std::vector<InterpArray> arrays;
      for (ValueId v : node.inputs) arrays.push_back({values[v].dtype, values[v].shape, values[v].data});
      arrays.push_back({spec.dtype, spec.shape, std::vector<double>(reference::Count(spec.shape))});
      EXPECT_TRUE(Interpret(alternative.func, arrays).ok()) << alternative.name;
      reference::Tensor got{spec.shape, arrays.back().data};
      got.dtype = spec.dtype;
      if (node.output == fused.outputs[0]) {
        EXPECT_EQ(got.data, want.data) << alternative.name;
      }
      values[node.output] = got;
    }
  }
  return names;
}

struct Draw {
  int64_t channels, filters, kernel, groups;
};

TEST(ExactProducts, ConvolutionsOfFullRangesEqualIntegers) {
  for (const Draw& d : {Draw{16, 16, 1, 1}, Draw{24, 32, 3, 1}, Draw{16, 16, 3, 16}, Draw{32, 16, 3, 4}}) {
    for (DType type : {kU8, kI8}) {
      Integers m(static_cast<uint64_t>(d.channels + d.groups));
      const Shape image = {1, 8, 8, d.channels};
      ConvAttrs attrs{.groups = d.groups, .layout = Layout::kNHWC};
      attrs.pads = Shape(4, d.kernel / 2);
      const ValueId x = m.Input(image, type, type == kU8 ? 131 : -7);
      const ValueId w = m.Weight({d.kernel, d.kernel, d.channels / d.groups, d.filters});
      const Graph g = m.End(m.b.Must(Op::kConv2d, {x, w}, attrs)), now = Rewritten(g);
      ASSERT_TRUE(IsInFloats(now)) << GraphText(now);
      const std::vector<reference::Tensor> in = {FullRange(image, type, m.rng)};
      const auto names = ExpectEqual(now, in, reference::Evaluate(g, in)[0]);
      EXPECT_THAT(names, testing::Not(testing::Contains(testing::StartsWith("winograd"))));
    }
  }
}

TEST(ExactProducts, DepthwiseConvolutionsReadBytes) {
  const auto reads_bytes = [](DType type, int32_t zero, int64_t filters, bool converts_factors, int64_t rows = 3) {
    Integers m(7);
    const Shape image = {1, 6, 7, 24};
    ConvAttrs attrs{.groups = 24, .layout = Layout::kNHWC};
    attrs.pads = {1, 2, 1, 0};
    const ValueId x = m.Input(image, type, zero), w = m.Weight({rows, rows, 1, filters});
    const Graph g = m.End(m.b.Must(Op::kConv2d, {x, w}, attrs));
    const Graph now = *ExactProducts(g, {.converts_factors = converts_factors});
    EXPECT_TRUE(IsInFloats(now)) << GraphText(now);
    const std::vector<reference::Tensor> in = {FullRange(image, type, m.rng)};
    ExpectEqual(now, in, reference::Evaluate(g, in)[0]);
    return now.Spec(ProductOf(now)->inputs[0]).dtype == type;
  };
  for (int32_t zero : {0, 131, 255}) EXPECT_TRUE(reads_bytes(kU8, zero, 24, true)) << zero;
  for (int32_t zero : {0, -128, 127}) EXPECT_TRUE(reads_bytes(kI8, zero, 24, true)) << zero;
  EXPECT_FALSE(reads_bytes(kU8, 256, 24, true)) << "no byte";
  EXPECT_FALSE(reads_bytes(kU8, 131, 48, true)) << "two filters of a channel";
  EXPECT_FALSE(reads_bytes(kU8, 131, 24, false)) << "the target converts none";
  EXPECT_FALSE(reads_bytes(kU8, 131, 24, true, 5)) << "many taps convert each byte many times";
}

TEST(ExactProducts, DepthwiseConvolutionsOfPlainBytesReadThem) {
  for (const DType type : {kU8, kI8}) {
    for (const int64_t pad_value : {0, 77}) {
      Integers m(9);
      const Shape image = {1, 6, 7, 24};
      ConvAttrs attrs{.pads = {1, 2, 1, 0}, .groups = 24, .layout = Layout::kNHWC, .pad_value = pad_value};
      const ValueId x = m.b.Input("x", {type, image}), w = m.Constant(FullRange({3, 3, 1, 24}, kI8, m.rng));
      const Graph g = m.End(m.b.Must(Op::kConv2d, {x, w}, attrs));
      const Graph now = *ExactProducts(g, {.converts_factors = true});
      EXPECT_TRUE(IsInFloats(now)) << GraphText(now);
      EXPECT_EQ(now.Spec(ProductOf(now)->inputs[0]).dtype, type);
      const std::vector<reference::Tensor> in = {FullRange(image, type, m.rng)};
      ExpectEqual(now, in, reference::Evaluate(g, in)[0]);
    }
  }
}

TEST(ExactProducts, ProductsEqualIntegersAndGoToFloatsWithoutATrip) {
  Integers m(3);
  const ValueId a = m.Input({5, 64}, kU8, 255), b = m.Wide(m.b.Input("b", {kI8, {64, 33}}));
  const Graph g = m.End(m.b.Must(Op::kCast, {m.b.Must(Op::kMatmul, {a, b})}, CastAttrs{kF32})), now = Rewritten(g);
  ASSERT_TRUE(IsInFloats(now));
  EXPECT_EQ(CountOps(now, Op::kSub), 1);
  EXPECT_EQ(now.outputs[0], ProductOf(now)->output) << "the floats are the result: " << GraphText(now);
  const std::vector<reference::Tensor> in = {FullRange({5, 64}, kU8, m.rng), FullRange({64, 33}, kI8, m.rng)};
  ExpectEqual(now, in, reference::Evaluate(g, in)[0]);
}

TEST(ExactProducts, FloatsOfTheModelMayUseWinograd) {
  Integers m(4);
  const Shape image = {1, 16, 16, 32};
  ConvAttrs attrs{.pads = {1, 1, 1, 1}, .layout = Layout::kNHWC};
  const Graph g = m.End(m.b.Must(Op::kConv2d, {m.b.Input("x", F32(image)), m.Random({3, 3, 32, 32})}, attrs));
  const Graph now = Rewritten(g), fused = *Fuse(now, {});
  const auto alternatives =
      *LowerSubgraph(*fused.nodes[0].body, *Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=2"));
  EXPECT_TRUE(std::any_of(alternatives.begin(), alternatives.end(),
                          [](const Alternative& a) { return topi::IsWinograd(a.name); }));
  EXPECT_EQ(AttrsText(ProductOf(g)->attrs).find("exact"), std::string::npos) << "hashes of tasks stay";
  attrs.exact = true;
  EXPECT_NE(AttrsText(attrs).find("exact=true"), std::string::npos) << AttrsText(attrs);
}

TEST(ExactProducts, ConvolutionsThatStayIntegersDoNotUseWinograd) {
  Integers m(8);
  const Shape image = {1, 16, 16, 32};
  ConvAttrs attrs{.pads = {1, 1, 1, 1}, .layout = Layout::kNHWC};
  const ValueId x = m.b.Input("x", {kI32, image});
  const Graph g = Rewritten(m.End(m.b.Must(Op::kConv2d, {x, m.Weight({3, 3, 32, 32})}, attrs)));
  ASSERT_FALSE(IsInFloats(g));
  reference::Tensor in = FullRange(image, kI8, m.rng);
  in.dtype = kI32;
  const auto names = ExpectEqual(g, {in}, reference::Evaluate(g, {in})[0]);
  EXPECT_THAT(names, testing::Not(testing::Contains(testing::StartsWith("winograd"))));
}

int64_t ProductsIn(const Graph& g) { return std::ranges::count(g.nodes, Op::kMatmul, &Node::op); }

// Returns in how many products of floats a product of u8 [2,terms] and these weights is computed; 0: in integers.
int64_t PiecesOf(int64_t terms, double even, double odd) {
  Integers m(5);
  const ValueId a = m.Input({2, terms}, kU8);
  const Graph now = Rewritten(m.End(m.b.Must(Op::kMatmul, {a, m.Filled({terms, 1}, even, odd)})));
  return IsInFloats(now) ? ProductsIn(now) : 0;
}

TEST(ExactProducts, SumsBeyondTheMantissaAreCut) {
  EXPECT_EQ(PiecesOf(518, 127, 127), 1);  // 518 * 255 * 127 = 2^24 - 1,786
  EXPECT_EQ(PiecesOf(519, 127, 127), 2);
  EXPECT_EQ(PiecesOf(1036, 127, -127), 1) << "partial sums of either sign reach half as far";
  EXPECT_EQ(PiecesOf(1038, 127, -127), 2);
  EXPECT_EQ(PiecesOf(512 * 16, 127, 127), 16);
  EXPECT_EQ(PiecesOf(512 * 16 + 1, 127, 127), 0) << "too many pieces";
}

TEST(ExactProducts, PiecesEqualIntegers) {
  for (const int64_t zero : {0, 131}) {
    Integers m(12);
    const ValueId a = m.Input({3, 1100}, kU8, static_cast<int32_t>(zero));
    const Graph g = m.End(m.b.Must(Op::kMatmul, {a, m.Filled({1100, 5}, 127, 126)})), now = Rewritten(g);
    EXPECT_TRUE(IsInFloats(now)) << GraphText(now);
    const std::vector<reference::Tensor> in = {FullRange({3, 1100}, kU8, m.rng)};
    ExpectEqual(now, in, reference::Evaluate(g, in)[0]);
  }
  for (const int64_t pad_value : {0, 255}) {  // floats cannot have the second one
    Integers m(13);
    const Shape image = {1, 5, 6, 72};
    ConvAttrs attrs{.pads = {1, 1, 1, 1}, .layout = Layout::kNHWC, .pad_value = pad_value};
    reference::Tensor weights{{3, 3, 72, 4}, std::vector<double>(3 * 3 * 72 * 4, -128)};
    weights.dtype = kI8;
    const ValueId x = m.b.Input("x", {kU8, image}), w = m.Constant(weights);
    const Graph g = m.End(m.b.Must(Op::kConv2d, {x, w}, attrs)), now = Rewritten(g);
    EXPECT_EQ(IsInFloats(now), pad_value == 0) << GraphText(now);
    const std::vector<reference::Tensor> in = {FullRange(image, kU8, m.rng)};
    const auto names = ExpectEqual(now, in, reference::Evaluate(g, in)[0]);
    EXPECT_THAT(names, testing::Not(testing::Contains(testing::StartsWith("winograd"))));
  }
}

TEST(ExactProducts, OneRowOfBytesStaysWhole) {
  for (const DType type : {kI8, kI32}) {
    Integers m(14);
    reference::Tensor weights{{1100, 64}, std::vector<double>(1100 * 64, 127)};
    weights.dtype = type;
    const ValueId a = type == kI8 ? m.b.Input("x", {kU8, {1, 1100}}) : m.Input({1, 1100}, kU8);
    const Graph now = Rewritten(m.End(m.b.Must(Op::kMatmul, {a, m.Constant(weights)})));
    EXPECT_EQ(IsInFloats(now), type == kI32) << "floats are more bytes to read than i8, not than i32";
  }
}

TEST(ExactProducts, UnknownOperandsAreBoundedByTheirTypes) {
  for (int64_t terms : {514, 515}) {  // 514 * 255 * 128 = 2^24 - 256
    Integers m(6);
    const ValueId a = m.Input({2, terms}, kU8), b = m.Wide(m.b.Input("b", {kI8, {terms, 3}}));
    EXPECT_EQ(IsInFloats(Rewritten(m.End(m.b.Must(Op::kMatmul, {a, b})))), terms == 514);
  }
  Integers m(7);  // integers of the model that no 8-bit number bounds
  const ValueId a = m.b.Input("a", {kI32, {2, 4}});
  EXPECT_FALSE(IsInFloats(Rewritten(m.End(m.b.Must(Op::kMatmul, {a, m.Weight({4, 3})})))));
}

// Differences of unsigned numbers wrap around: 0 - 3 is 253, so the product of 520 of them may have large sums.
TEST(ExactProducts, OfDifferencesThatWrapAround) {
  for (const int64_t terms : {400, 520}) {
    Integers m(41);
    reference::Tensor three{{}, {3}};
    three.dtype = kU8;
    ValueId x = m.b.Must(Op::kSub, {m.b.Input("x", {kU8, {2, terms}}), m.Constant(three)});
    const Graph g = m.End(m.b.Must(Op::kMatmul, {m.Wide(x), m.Filled({terms, 2}, -128, -128)}));
    EXPECT_EQ(ProductsIn(Rewritten(g)), terms == 400 ? 1 : 2);
  }
}

}  // namespace
}  // namespace autotune::graph
