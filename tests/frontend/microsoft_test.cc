// Activations, normalizations and products of com.microsoft, compared with numbers computed from their definitions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "frontend/onnx/import.h"
#include "tests/frontend/element_types.h"
#include "tests/frontend/outputs.h"

namespace autotune::graph {
namespace {

using testing::HasSubstr;

NodeMaker Node(ModelMaker& m, const std::string& op, const std::vector<std::string>& inputs,
               const std::vector<std::string>& outputs) {
  for (const std::string& y : outputs) {
    if (!y.empty()) m.Output(y);
  }
  return m.Node(op, inputs, outputs).Domain("com.microsoft");
}

double Gelu(double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2))); }
double FastGelu(double x) { return x / 2 * (1 + std::tanh(0.7978845608028654 * x + 0.035677408136300125 * x * x * x)); }
TEST(Microsoft, Gelus) {
  const Numbers x = {-1.5, 0.25, 2, -0.5}, b = {0.5, -1};
  auto expected = [&](double (*f)(double), bool biased) {
    Numbers y;
    for (size_t i = 0; i < x.size(); ++i) y.push_back(f(x[i] + (biased ? b[i % 2] : 0)));
    return y;
  };
  auto of = [&](const char* op, bool biased) {
    ModelMaker m(12);
    m.Input("x", {2, 2});
    if (biased) m.Input("b", {2});
    Node(m, op, biased ? std::vector<std::string>{"x", "b"} : std::vector<std::string>{"x"}, {"y"});
    return Output(m, {x, b});
  };
  EXPECT_THAT(of("Gelu", false), Near(expected(Gelu, false)));
  EXPECT_THAT(of("BiasGelu", true), Near(expected(Gelu, true)));
  EXPECT_THAT(of("FastGelu", false), Near(expected(FastGelu, false)));
  EXPECT_THAT(of("FastGelu", true), Near(expected(FastGelu, true)));
  const auto quick = [](double v) { return v * Sigmoid(1.702 * v); };
  EXPECT_THAT(of("QuickGelu", false), Near(expected(quick, false)));
  ModelMaker m(12), wide(12), none(12);
  m.Input("x", {1});
  Node(m, "QuickGelu", {"x"}, {"y"}).Float("alpha", 2);
  EXPECT_THAT(Output(m, {{0.75}}), Near(Numbers{0.75 * Sigmoid(1.5)}));
  wide.Input("x", {2, 2}).Input("b", {3, 2, 2});
  Node(wide, "BiasGelu", {"x", "b"}, {"y"});
  EXPECT_THAT(ImportError(wide), HasSubstr("the bias does not fit f32[2,2]"));
  none.Input("x", {2, 2});
  Node(none, "BiasGelu", {"x"}, {"y"});
  EXPECT_THAT(ImportError(none), HasSubstr("lacks input 1, 'B'"));
}

TEST(Microsoft, FusedMatMul) {
  ModelMaker m(12);
  m.Input("a", {3, 2}).Input("b", {2, 3});
  Node(m, "FusedMatMul", {"a", "b"}, {"y"}).Int("transA", 1).Int("transB", 1).Float("alpha", 0.5f);
  // The transpose of a has the rows (1 3 5) and (2 4 6), that of b the rows (1 4), (2 5) and (3 6).
  EXPECT_THAT(Output(m, {{1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}}), Near(Numbers{11, 24.5, 14, 32}));
  ModelMaker batch(12);
  batch.Input("a", {2, 2, 2}).Input("b", {2, 2, 2});
  Node(batch, "FusedMatMul", {"a", "b"}, {"y"}).Int("transBatchA", 1);
  EXPECT_THAT(ImportError(batch), HasSubstr("transBatchA is not supported"));
}

ModelMaker FusedConv(const char* activation, const std::vector<int64_t>& addend = {1, 1, 2}) {
  ModelMaker m(12);
  m.Input("x", {1, 1, 3}).Input("w", {1, 1, 2}).Input("b", {1}).Input("z", addend);
  Node(m, "FusedConv", {"x", "w", "b", "z"}, {"y"}).String("activation", activation);
  return m;
}

TEST(Microsoft, FusedConv) {
  const std::vector<Numbers> in = {{1, 2, -4}, {1, 2}, {0.5}, {1, -1}};  // convolution plus z: 6.5 and -6.5
  EXPECT_THAT(Output(FusedConv("Relu"), in), Near(Numbers{6.5, 0}));
  EXPECT_THAT(Output(FusedConv("Tanh"), in), Near(Numbers{std::tanh(6.5), std::tanh(-6.5)}));
  EXPECT_THAT(Output(FusedConv("Sigmoid"), in), Near(Numbers{Sigmoid(6.5), Sigmoid(-6.5)}));
  EXPECT_THAT(ImportError(FusedConv("Clip")), HasSubstr("activation 'Clip' takes 2 parameters, not 0"));
  EXPECT_THAT(ImportError(FusedConv("Softsign")), HasSubstr("activation 'Softsign' is not supported"));
  EXPECT_THAT(ImportError(FusedConv("Relu", {1, 1, 1})), HasSubstr("Z must be f32[1,1,2], not f32[1,1,1]"));
}

// Returns (x - mean) / sqrt(variance + epsilon) * gamma + beta for rows of four. If `root`, the mean counts as 0.
Numbers NormalizedRows(const Numbers& x, const Numbers& gamma, const Numbers& beta, double epsilon, bool root = false) {
  Numbers y;
  for (size_t row = 0; row < x.size(); row += 4) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < 4 && !root; ++i) mean += x[row + i] / 4;
    for (size_t i = 0; i < 4; ++i) variance += (x[row + i] - mean) * (x[row + i] - mean) / 4;
    for (size_t i = 0; i < 4; ++i)
      y.push_back((x[row + i] - mean) / std::sqrt(variance + epsilon) * gamma[i] + (beta.empty() ? 0 : beta[i]));
  }
  return y;
}

TEST(Microsoft, SkipLayerNormalization) {
  const Numbers x = {1, 2, 3, 5, -1, 0, 2, 4}, skip = {0.5, 1, -1, 0, 2, 2, 1, 1};
  const Numbers gamma = {1, 2, 0.5, -1}, beta = {0, 1, 2, 3}, bias = {1, 0, -1, 0.5};
  Numbers sum;
  for (size_t i = 0; i < x.size(); ++i) sum.push_back(x[i] + skip[i] + bias[i % 4]);
  ModelMaker m(12), simple(12), partly(12);
  m.Input("x", {1, 2, 4}).Input("s", {1, 2, 4}).Input("g", {4}).Input("b", {4}).Input("c", {4});
  Node(m, "SkipLayerNormalization", {"x", "s", "g", "b", "c"}, {"y", "", "", "sum"}).Float("epsilon", 0.25f);
  auto out = Outputs(m, {x, skip, gamma, beta, bias});
  EXPECT_THAT(out[0].data, Near(NormalizedRows(sum, gamma, beta, 0.25)));
  EXPECT_THAT(out[1].data, Near(sum));
  simple.Input("x", {1, 2, 4}).Input("s", {2, 4}).Input("g", {4}).Input("c", {4});
  Node(simple, "SkipSimplifiedLayerNormalization", {"x", "s", "g", "c"}, {"y", "", "", "sum"});
  out = Outputs(simple, {x, skip, gamma, bias});
  EXPECT_THAT(out[0].data, Near(NormalizedRows(sum, gamma, {}, 1e-12, true)));
  EXPECT_THAT(out[1].data, Near(sum));
  partly.Input("x", {1, 2, 4}).Input("s", {3, 2, 4}).Input("g", {4});
  Node(partly, "SkipLayerNormalization", {"x", "s", "g"}, {"y"});
  EXPECT_THAT(ImportError(partly), HasSubstr("skip or bias do not fit f32[1,2,4]"));
}

// ONNX Runtime also writes these operators with ONNX's own domain, in any operator set.
TEST(Microsoft, LayerNormalizations) {
  const Numbers x = {1, 2, 3, 5, -1, 0, 2, 4}, gamma = {1, 2, 0.5, -1}, beta = {0, 1, 2, 3};
  for (const char* domain : {"", "com.microsoft"}) {
    ModelMaker m(12);
    m.Input("x", {2, 4}).Input("g", {4}).Input("b", {4}).Output("y").Output("z");
    m.Node("LayerNormalization", {"x", "g", "b"}, {"y"}).Domain(domain);
    m.Node("SimplifiedLayerNormalization", {"x", "g"}, {"z"}).Domain(domain).Float("epsilon", 0.5f);
    const auto out = Outputs(m, {x, gamma, beta});
    EXPECT_THAT(out[0].data, Near(NormalizedRows(x, gamma, beta, 1e-5)));
    EXPECT_THAT(out[1].data, Near(NormalizedRows(x, gamma, {}, 0.5, true)));
  }
}

TEST(Microsoft, EmbedLayerNormalization) {
  const Numbers words = {0, 0, 0, 0, 1, 2, 3, 4, 5, 4, 3, 2}, positions = {1, 0, 0, 0, 0, 2, 0, 0};
  const Numbers segments = {0, 0, 1, 0, 0, 0, 0, 3}, gamma = {1, 2, 0.5, -1}, beta = {0, 1, 2, 3};
  ModelMaker m(12);
  m.Input("ids", {1, 2}, kInt32).Input("seg", {1, 2}, kInt32).Input("w", {3, 4}).Input("p", {2, 4}).Input("s", {2, 4});
  m.Input("g", {4}).Input("b", {4}).Input("mask", {1, 2}, kInt32);
  Node(m, "EmbedLayerNormalization", {"ids", "seg", "w", "p", "s", "g", "b", "mask"}, {"y", "count", "sum"});
  const auto out = Outputs(m, {{2, 1}, {0, 1}, words, positions, segments, gamma, beta, {1, 0}});
  const Numbers sum = {6, 4, 4, 2, 1, 4, 3, 7};
  EXPECT_THAT(out[0].data, Near(NormalizedRows(sum, gamma, beta, 1e-12)));
  EXPECT_EQ(out[1].data, Numbers{1});
  EXPECT_THAT(out[2].data, Near(sum));
  ModelMaker at(12);  // with an input of positions, without segments and mask
  at.Input("ids", {1, 2}, kInt32).Input("w", {3, 4}).Input("p", {2, 4}).Input("g", {4}).Input("b", {4});
  at.Input("at", {1, 2}, kInt32);
  Node(at, "EmbedLayerNormalization", {"ids", "", "w", "p", "", "g", "b", "", "at"}, {"y", "count", "sum"});
  const auto other = Outputs(at, {{2, 1}, words, positions, gamma, beta, {1, 1}});
  EXPECT_THAT(other[2].data, Near(Numbers{5, 6, 3, 2, 1, 4, 3, 4}));
  EXPECT_EQ(other[1].data, Numbers{0});
}

TEST(Microsoft, OtherOperatorsAndDomainsAreRefused) {
  ModelMaker other(12), domain(12);
  other.Input("x", {2});
  Node(other, "NGramRepeatBlock", {"x"}, {"y"});
  EXPECT_THAT(ImportError(other), HasSubstr("com.microsoft.NGramRepeatBlock (node #0) is not supported"));
  domain.Input("x", {2}).Output("y").Node("Gelu", {"x"}, {"y"}).Domain("com.other");
  EXPECT_THAT(ImportError(domain), HasSubstr("com.other.Gelu (node #0) is not supported"));
}

}  // namespace
}  // namespace autotune::graph
