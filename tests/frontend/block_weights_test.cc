// Weights of few bits: products with a scale for each block of terms, and constants of 4 bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cmath>

#include "frontend/onnx/import.h"
#include "graph/pass.h"
#include "tests/frontend/block_product.h"
#include "tests/frontend/element_types.h"
#include "tests/frontend/outputs.h"

namespace autotune::graph {
namespace {

using testing::HasSubstr;

constexpr int kInt4 = 22, kUInt4 = 21;

using Product = BlockProduct;

struct Made : BlockProductData {
  ModelMaker model{21};
};

Made Make(const Product& p) {
  Made made;
  static_cast<BlockProductData&>(made) = AddBlockProduct(made.model, p);
  return made;
}

TEST(BlockWeights, ProductsOfFewBits) {
  for (int64_t bits : {4, 8}) {
    for (const Product& p :
         {Product{.bits = bits}, Product{.bits = bits, .zeros = Product::kPacked}, Product{.k = 70, .bits = bits},
          Product{.bits = bits, .zeros = Product::kFloats}, Product{.rows = 3, .k = 33, .block = 16, .bits = bits},
          Product{.rows = 9, .k = 96, .bits = bits, .zeros = Product::kPacked, .has_bias = true}}) {
      const Made made = Make(p);
      // Numbers, scales and zero points are multiples of 1/8, so nothing is rounded.
      EXPECT_EQ(Output(made.model, {made.x}), made.want) << "k " << p.k << ", bits " << bits << ", zeros " << p.zeros;
    }
  }
}

// Weights of a few rows stay bytes. Those of many rows become floats.
TEST(BlockWeights, StayBytesForFewRows) {
  const auto of_bytes = [](const Product& p, bool converts_factors) {
    const Made made = Make(p);
    const Graph g = Import(made.model)->module.main();
    const Result<Graph> now = BlockProducts(g, {.converts_factors = converts_factors});
    EXPECT_TRUE(now.ok() && CheckGraph(*now).ok());
    EXPECT_EQ(reference::Evaluate(*now, {{{p.rows, p.k}, made.x}})[0].data, made.want);
    for (const Node& node : now->nodes)
      if (node.op == Op::kBlockMatmul)
        return std::string(now->Spec(node.inputs[1]).dtype == DType::Int(8) ? "bytes" : "words") +
               (node.inputs.size() > 3 ? " with zero points" : "");
    return std::string();
  };
  EXPECT_EQ(of_bytes({}, true), "words");
  EXPECT_EQ(of_bytes({.rows = 4, .k = 70}, true), "words");
  EXPECT_EQ(of_bytes({.zeros = Product::kPacked}, true), "words with zero points");
  EXPECT_EQ(of_bytes({.bits = 8}, true), "bytes");
  EXPECT_EQ(of_bytes({.rows = 32, .k = 512, .block = 256}, true), "words");
  EXPECT_EQ(of_bytes({.rows = 33, .k = 512, .block = 512}, true), "") << "each tile of rows converts them again";
  EXPECT_EQ(of_bytes({.rows = 5}, true), "") << "the sums of blocks cost too much";
  EXPECT_EQ(of_bytes({.zeros = Product::kFloats}, true), "") << "no bytes";
  EXPECT_EQ(of_bytes({.bits = 8, .zeros = Product::kPacked}, true), "") << "from -255 to 255";
  EXPECT_EQ(of_bytes({}, false), "") << "the target converts none";
}

// The operator of the product, and its results, in a graph that multiplies integers where data are rounded to them.
std::string ProductOf(const Product& p) {
  const Made made = Make(p);
  const Graph g = Import(made.model)->module.main();
  const Result<Graph> now = BlockProducts(g, {.converts_factors = true});
  EXPECT_TRUE(now.ok() && CheckGraph(*now).ok());
  const Numbers got = reference::Evaluate(*now, {{{p.rows, p.k}, made.x}})[0].data;
  EXPECT_EQ(got.size(), made.want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], made.want[i], made.bounds[i]) << i;
  for (const Node& node : now->nodes)
    if (node.op == Op::kMatmul) {
      return std::string("matmul");
    } else if (node.op == Op::kBlockMatmul) {
      const bool of_floats = now->Spec(node.inputs[0]).dtype == DType::Float(32);
      return of_floats ? "floats" : std::string("integers") + (node.inputs.size() > 5 ? " with zero points" : "");
    }
  return "";
}

// With accuracy_level 4, data are rounded to 8 bits. Products of few rows multiply these integers.
TEST(BlockWeights, RoundedDataMeetIntegers) {
  for (int64_t bits : {4, 8}) {
    const std::string integers = "integers";
    EXPECT_EQ(ProductOf({.bits = bits, .level = 4}), integers);
    EXPECT_EQ(ProductOf({.rows = 4, .k = 70, .bits = bits, .has_bias = true, .level = 4}), integers);
    EXPECT_EQ(ProductOf({.rows = 2, .k = 40, .n = 33, .block = 16, .bits = bits, .level = 4}), integers);
    EXPECT_EQ(ProductOf({.k = 300, .block = 256, .bits = bits, .level = 4}), integers);
    EXPECT_EQ(ProductOf({.rows = 5, .bits = bits, .level = 4}), "matmul") << "so many rows take floats";
    EXPECT_EQ(ProductOf({.bits = bits, .zeros = Product::kFloats, .level = 4}), "matmul") << "no integers";
  }
  EXPECT_EQ(ProductOf({.k = 128, .zeros = Product::kPacked, .level = 4}), "integers with zero points");
  EXPECT_EQ(ProductOf({.k = 10, .block = 2, .level = 4}), "matmul") << "no groups";
  EXPECT_EQ(ProductOf({.level = 1}), "floats") << "only level 4 rounds";
}

// With --precision int8, so do products of models that do not ask for it.
TEST(BlockWeights, DataAreRoundedOnRequest) {
  const Made rounded = Make({.level = 4}), exact = Make({.level = 0});
  for (const bool asked : {false, true}) {
    const Graph g =
        *BlockProducts(Import(exact.model)->module.main(), {.rounds_to_int8 = asked, .converts_factors = true});
    const Numbers y = reference::Evaluate(g, {{{1, 64}, rounded.x}})[0].data;
    for (size_t i = 0; i < y.size(); ++i) {
      EXPECT_NEAR(y[i], asked ? rounded.want[i] : rounded.want_exact[i], rounded.bounds[i]) << asked << " " << i;
      EXPECT_GT(std::abs(rounded.want[i] - rounded.want_exact[i]), 2 * rounded.bounds[i]) << "both are right";
    }
  }
}

// Blocks of zeros have no scale, and blocks of tiny numbers none that f32 holds.
TEST(BlockWeights, BlocksOfZerosGiveZeros) {
  const Made made = Make({.level = 4});
  const Graph g = *BlockProducts(Import(made.model)->module.main(), {.converts_factors = true});
  for (double x : {0.0, 1e-40, -1e-37}) {
    const Numbers numbers = reference::Evaluate(g, {{{1, 64}, Numbers(64, x)}})[0].data;
    // Each of the 64 weights has at most 16 steps of a scale of at most 2, and rounding adds less than half of x.
    for (double y : numbers) EXPECT_LE(std::abs(y), 64 * 16 * 2 * 1.5 * std::abs(x)) << x;
  }
}

// An infinite factor gives an infinite sum with the sign of its weight, as in floats.
TEST(BlockWeights, InfiniteDataStayInfinite) {
  const Made made = Make({});
  const Graph floats = Import(made.model)->module.main(), now = *BlockProducts(floats, {.converts_factors = true});
  Numbers x = made.x;
  x[3] = INFINITY;
  const auto want = reference::Evaluate(floats, {{{1, 64}, x}})[0].data;
  EXPECT_TRUE(std::ranges::any_of(want, [](double y) { return std::isinf(y); }));
  const auto got = reference::Evaluate(now, {{{1, 64}, x}})[0].data;
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) << got[i] << ", " << want[i];
}

// DequantizeLinear in blocks, with more zero points than import folds.
TEST(BlockWeights, BlocksWithManyZeroPointsStayBytes) {
  constexpr int64_t kBlocks = 4, kBlock = 16, kColumns = 300, kTerms = kBlocks * kBlock;
  std::vector<uint8_t> w(kTerms * kColumns), zeros(kBlocks * kColumns);
  std::vector<float> scales(kBlocks * kColumns);
  Numbers x(kTerms), want(kColumns, 0);
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<uint8_t>(i * 7 % 128);
  for (size_t i = 0; i < zeros.size(); ++i) zeros[i] = static_cast<uint8_t>(i % 100), scales[i] = 0.25f * (1 + i % 3);
  for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<double>(k % 9) - 4;
  for (size_t k = 0; k < x.size(); ++k) {
    for (size_t column = 0; column < kColumns; ++column) {
      const size_t block = k / kBlock * kColumns + column;
      want[column] += x[k] * scales[block] * (w[k * kColumns + column] - zeros[block]);
    }
  }
  ModelMaker m(21);
  m.Input("x", {1, kTerms}).Bytes8("w", {kTerms, kColumns}, w, kUInt8).Bytes8("z", {kBlocks, kColumns}, zeros, kUInt8);
  m.Floats("s", {kBlocks, kColumns}, scales).Output("y");
  m.Node("DequantizeLinear", {"w", "s", "z"}, {"f"}).Int("axis", 0).Int("block_size", kBlock);
  m.Node("MatMul", {"x", "f"}, {"y"});
  const Result<Graph> now = BlockProducts(Import(m)->module.main(), {.converts_factors = true});
  ASSERT_TRUE(now.ok());
  EXPECT_TRUE(std::ranges::any_of(now->nodes, [](const Node& node) { return node.op == Op::kBlockMatmul; }));
  EXPECT_EQ(reference::Evaluate(*now, {{{1, kTerms}, x}})[0].data, want);
}

TEST(BlockWeights, RefusesWhatItCannotRead) {
  const auto error = [](auto change) {
    ModelMaker m(21);
    m.Input("x", {1, 64}).Input("order", {64}, kInt32).Output("y").ImportDomain("com.microsoft");
    m.Bytes8("w", {4, 2, 16}, std::vector<uint8_t>(128), kUInt8).Floats("s", {8}, std::vector<float>(8, 1));
    m.Floats("few", {7}, std::vector<float>(7, 1)).Input("later", {8});
    std::vector<std::string> inputs = {"x", "w", "s", "", "", ""};
    std::map<std::string, int64_t> attributes = {{"K", 64}, {"N", 4}, {"bits", 4}, {"block_size", 32}};
    change(inputs, attributes);
    NodeMaker node = m.Node("MatMulNBits", inputs, {"y"}).Domain("com.microsoft");
    for (const auto& [name, value] : attributes) node.Int(name, value);
    return ImportError(m);
  };
  EXPECT_EQ(error([](auto&, auto&) {}), "no error");
  EXPECT_THAT(error([](auto&, auto& a) { a["bits"] = 2; }), HasSubstr("bits=2 is not supported, only 4 and 8"));
  EXPECT_THAT(error([](auto&, auto& a) { a["block_size"] = 0; }), HasSubstr("block_size=0 is no number"));
  EXPECT_THAT(error([](auto&, auto& a) { a["K"] = int64_t{1} << 40; }), HasSubstr("is no number from 1 to"));
  EXPECT_THAT(error([](auto&, auto& a) { a["N"] = 5; }),
              HasSubstr("its weights must have 160 elements, not u8[4,2,16]"));
  EXPECT_THAT(error([](auto&, auto& a) { a["K"] = 63; }), HasSubstr("A must have K=63 columns, not f32[1,64]"));
  EXPECT_THAT(error([](auto& in, auto&) { in[2] = "few"; }), HasSubstr("its scales must have 8 elements"));
  EXPECT_THAT(error([](auto& in, auto&) { in[2] = "later"; }), HasSubstr("its scales must be constants"));
  EXPECT_THAT(error([](auto& in, auto&) { in[4] = "order"; }), HasSubstr("g_idx, another order of the terms, is not"));
  EXPECT_THAT(error([](auto& in, auto&) { in[5] = "s"; }), HasSubstr("the bias must have N=4 elements"));
}

// Constants of 4 bits, two in a byte, of which DequantizeLinear has a scale for each block.
TEST(BlockWeights, ConstantsOf4Bits) {
  const auto dequantized = [](int type, int64_t axis, bool has_zero) {
    ModelMaker m(21);
    m.Input("x", {2}).Output("y").Output("z");
    m.Bytes8("w", {3, 4}, {0x21, 0x43, 0x87, 0xf0, 0x9a, 0x6b}, type).Bytes8("zero", {3, 2}, {0x01, 0xf1, 0x23}, type);
    m.Floats("s", {3, 2}, {1, 2, 0.5, 4, 1, 0.25});
    std::vector<std::string> inputs = {"w", "s"};
    if (has_zero) inputs.push_back("zero");
    m.Node("DequantizeLinear", inputs, {"y"}).Int("axis", axis).Int("block_size", 2);
    m.Node("Identity", {"x"}, {"z"});
    return Outputs(m, {{0, 0}})[0].data;
  };
  EXPECT_EQ(dequantized(kUInt4, 1, false), (Numbers{1, 2, 6, 8, 3.5, 4, 0, 60, 10, 9, 2.75, 1.5}));
  EXPECT_EQ(dequantized(kInt4, 1, false), (Numbers{1, 2, 6, 8, 3.5, -4, 0, -4, -6, -7, -1.25, 1.5}));
  EXPECT_EQ(dequantized(kUInt4, 1, true), (Numbers{0, 1, 6, 8, 3, 3.5, -60, 0, 7, 6, 2.25, 1}));
  ModelMaker odd(21);
  odd.Input("x", {1}).Bytes8("w", {3}, {0x21, 0x03}, kInt4).Floats("s", {}, {2}).Output("y").Output("z");
  odd.Node("DequantizeLinear", {"w", "s"}, {"y"});
  odd.Node("Identity", {"x"}, {"z"});
  EXPECT_EQ(Outputs(odd, {{0}})[0].data, (Numbers{2, 4, 6}));
  ModelMaker few(21);
  few.Input("x", {1}).Bytes8("w", {5}, {0x21, 0x03}, kInt4).Floats("s", {}, {2}).Output("y").Output("z");
  few.Node("DequantizeLinear", {"w", "s"}, {"y"});
  few.Node("Identity", {"x"}, {"z"});
  EXPECT_THAT(ImportError(few), HasSubstr("tensor 'w' has 2 bytes where u8[3] wants 3"));
}

}  // namespace
}  // namespace autotune::graph
