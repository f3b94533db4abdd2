// Operators that are built from formulas of the graph language, compared with numbers computed from their definitions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "frontend/onnx/import.h"
#include "tests/frontend/element_types.h"
#include "tests/frontend/outputs.h"

namespace autotune::graph {
namespace {

using testing::HasSubstr;

// Returns a model of one operator whose inputs all have the same shape.
ModelMaker Single(const std::string& op, const std::vector<int64_t>& shape, size_t inputs, int opset,
                  int type = kFloat) {
  ModelMaker m(opset);
  std::vector<std::string> names;
  for (size_t i = 0; i < inputs; ++i) m.Input(names.emplace_back(1, static_cast<char>('a' + i)), shape, type);
  m.Output("y").Node(op, names, {"y"});
  return m;
}

TEST(NewOperators, FunctionsOfOneElement) {
  struct Row {
    const char* name;
    int opset;  // first operator set that has the operator
    double (*function)(double);
  };
  const Row rows[] = {{"Sin", 7, [](double x) { return std::sin(x); }},
                      {"Cos", 7, [](double x) { return std::cos(x); }},
                      {"Tan", 7, [](double x) { return std::tan(x); }},
                      {"Asin", 7, [](double x) { return std::asin(x); }},
                      {"Acos", 7, [](double x) { return std::acos(x); }},
                      {"Atan", 7, [](double x) { return std::atan(x); }},
                      {"Sinh", 9, [](double x) { return std::sinh(x); }},
                      {"Cosh", 9, [](double x) { return std::cosh(x); }},
                      {"Asinh", 9, [](double x) { return std::asinh(x); }},
                      {"Atanh", 9, [](double x) { return std::atanh(x); }},
                      {"Mish", 18, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
                      {"Gelu", 20, [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2))); }},
                      {"HardSwish", 14, [](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }},
                      {"Swish", 24, [](double x) { return x * Sigmoid(x); }}};
  const Numbers x = {-0.9, -0.5, 0, 0.25, 0.75};
  for (const Row& row : rows) {
    Numbers want;
    for (double v : x) want.push_back(row.function(v));
    for (int opset : {row.opset, 28}) {
      EXPECT_THAT(Output(Single(row.name, {5}, 1, opset), {x}), Near(want)) << row.name;
      EXPECT_THAT(Output(Single(row.name, {5}, 1, opset, kDouble), {x}), Near(want)) << row.name;
    }
    EXPECT_THAT(ImportError(Single(row.name, {5}, 1, 28, kInt32)), HasSubstr("not i32[5]")) << row.name;
    EXPECT_THAT(ImportError(Single(row.name, {5}, 1, row.opset - 1)), HasSubstr("is supported in operator sets"));
  }
  EXPECT_THAT(Output(Single("Acosh", {2}, 1, 9), {{1, 3}}), Near(Numbers{0, std::acosh(3.0)}));
}

TEST(NewOperators, LargeArgumentsOfMish) {
  EXPECT_THAT(Output(Single("Mish", {3}, 1, 18), {{100, 1e4, -1e4}}), Near(Numbers{100, 1e4, 0}));
}

TEST(NewOperators, GeluByTanh) {
  ModelMaker m(20);
  m.Input("x", {2}).Output("y").Node("Gelu", {"x"}, {"y"}).String("approximate", "tanh");
  auto gelu = [](double x) {
    return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1)) * (x + 0.044715 * x * x * x)));
  };
  EXPECT_THAT(Output(m, {{-2, 1.5}}), Near(Numbers{gelu(-2), gelu(1.5)}));
  ModelMaker bad(20);
  bad.Input("x", {2}).Output("y").Node("Gelu", {"x"}, {"y"}).String("approximate", "odd");
  EXPECT_THAT(ImportError(bad), HasSubstr("approximate 'odd' is neither none nor tanh"));
}

TEST(NewOperators, GatedBySwish) {
  ModelMaker m(28);
  m.Input("a", {2}).Input("b", {2}).Output("y").Node("SwiGLU", {"a", "b"}, {"y"}).Float("alpha", 2);
  EXPECT_THAT(Output(m, {{-1, 2}, {3, 5}}), Near(Numbers{-3 * Sigmoid(-2), 10 * Sigmoid(4)}));
  ModelMaker bad(28);  // SwiGLU does not broadcast
  bad.Input("a", {2}).Input("b", {1}).Output("y").Node("SwiGLU", {"a", "b"}, {"y"});
  EXPECT_THAT(ImportError(bad), HasSubstr("its inputs' shapes differ"));
}

TEST(NewOperators, Bits) {
  const Numbers a = {6, -1, 5}, b = {3, 8, -8};
  EXPECT_EQ(Output(Single("BitwiseAnd", {3}, 2, 18, kInt32), {a, b}), (Numbers{2, 8, 0}));
  EXPECT_EQ(Output(Single("BitwiseOr", {3}, 2, 18, kInt64), {a, b}), (Numbers{7, -1, -3}));
  EXPECT_EQ(Output(Single("BitwiseXor", {3}, 2, 18, kInt32), {a, b}), (Numbers{5, -9, -3}));
  EXPECT_EQ(Output(Single("BitwiseNot", {3}, 1, 18, kInt32), {a}), (Numbers{-7, 0, -6}));
  EXPECT_EQ(Output(Single("BitwiseNot", {2}, 1, 18, kUInt8), {{0, 200}}), (Numbers{255, 55}));
  EXPECT_THAT(ImportError(Single("BitwiseAnd", {3}, 2, 18, kBool)), HasSubstr("is for integers, not for bool"));
  EXPECT_THAT(ImportError(Single("BitwiseNot", {3}, 1, 18)), HasSubstr("is for bools and integers"));
}

TEST(NewOperators, Shifts) {
  auto model = [](const char* direction, int type) {
    ModelMaker m(11);
    m.Input("a", {3}, type).Input("b", {3}, type).Output("y");
    m.Node("BitShift", {"a", "b"}, {"y"}).String("direction", direction);
    return m;
  };
  EXPECT_EQ(Output(model("LEFT", kUInt8), {{1, 200, 3}, {4, 1, 9}}), (Numbers{16, 144, 0}));
  EXPECT_EQ(Output(model("RIGHT", kUInt8), {{16, 200, 3}, {4, 1, 9}}), (Numbers{1, 100, 0}));
  EXPECT_THAT(ImportError(model("UP", kUInt8)), HasSubstr("direction 'UP' is neither LEFT nor RIGHT"));
  EXPECT_THAT(ImportError(model("LEFT", kInt32)), HasSubstr("is for unsigned integers"));
}

TEST(NewOperators, BitsOfAnotherType) {
  auto model = [](int from, int to) {
    ModelMaker m(26);
    m.Input("x", {2}, from).Output("y").Node("BitCast", {"x"}, {"y"}).Int("to", to);
    return m;
  };
  EXPECT_EQ(Output(model(kFloat, kInt32), {{1, -2}}), (Numbers{0x3f800000, -1073741824}));
  EXPECT_EQ(Output(model(kInt32, kFloat), {{0x3f800000, 0}}), (Numbers{1, 0}));
  EXPECT_THAT(ImportError(model(kFloat, kInt64)), HasSubstr("for numbers of another width, i64"));
  EXPECT_THAT(ImportError(model(kBool, kUInt8)), HasSubstr("is for numbers"));
}

TEST(NewOperators, GroupNormalization) {
  auto model = [](int opset, const std::vector<float>& scale, int64_t groups) {
    ModelMaker m(opset);
    const auto n = static_cast<int64_t>(scale.size());
    m.Input("x", {1, 4, 2}).Floats("s", {n}, scale).Floats("b", {n}, std::vector<float>(scale.size(), 1)).Output("y");
    m.Node("GroupNormalization", {"x", "s", "b"}, {"y"}).Int("num_groups", groups).Float("epsilon", 0);
    return m;
  };
  const Numbers x = {1, 3, 1, 3, 5, 5, 9, 9};  // normalized -1, 1, -1, 1, -1, -1, 1, 1
  EXPECT_THAT(Output(model(18, {2, 3}, 2), {x}), Near(Numbers{-1, 3, -1, 3, -2, -2, 4, 4}));
  EXPECT_THAT(Output(model(21, {2, 3, 4, 5}, 2), {x}), Near(Numbers{-1, 3, -2, 4, -3, -3, 6, 6}));
  EXPECT_THAT(ImportError(model(21, {2, 3}, 2)), HasSubstr("scale and bias must have shape [4]"));
  EXPECT_THAT(ImportError(model(18, {2, 3, 4, 5}, 2)), HasSubstr("scale and bias must have shape [2]"));
  EXPECT_THAT(ImportError(model(21, {2, 3, 4, 5}, 3)), HasSubstr("4 channels do not divide into 3 groups"));
}

TEST(NewOperators, RmsNormalization) {
  ModelMaker m(23);
  m.Input("x", {2, 2}).Floats("s", {2}, {2, 10}).Output("y");
  m.Node("RMSNormalization", {"x", "s"}, {"y"}).Float("epsilon", 0);
  const double root = std::sqrt(12.5);
  EXPECT_THAT(Output(m, {{3, 4, 1, 1}}), Near(Numbers{6 / root, 40 / root, 2, 10}));
  ModelMaker bad(23);
  bad.Input("x", {2, 2}).Floats("s", {1, 1, 2}, {2, 10}).Output("y").Node("RMSNormalization", {"x", "s"}, {"y"});
  EXPECT_THAT(ImportError(bad), HasSubstr("the scale does not fit"));
}

TEST(NewOperators, LpNormalization) {
  auto model = [](int64_t p) {
    ModelMaker m(22);
    m.Input("x", {2, 2}).Output("y").Node("LpNormalization", {"x"}, {"y"}).Int("p", p);
    return m;
  };
  EXPECT_THAT(Output(model(2), {{3, -4, 0, 0}}), Near(Numbers{0.6, -0.8, 0, 0}));
  EXPECT_THAT(Output(model(1), {{3, -5, 0, 0}}), Near(Numbers{0.375, -0.625, 0, 0}));
  EXPECT_THAT(ImportError(model(3)), HasSubstr("p must be 1 or 2, not 3"));
}

TEST(NewOperators, CumulatedProducts) {
  auto model = [](int exclusive, int reverse) {
    ModelMaker m(26);
    m.Input("x", {3}).Ints("axis", {0}).Output("y");
    m.Node("CumProd", {"x", "axis"}, {"y"}).Int("exclusive", exclusive).Int("reverse", reverse);
    return m;
  };
  EXPECT_EQ(Output(model(0, 0), {{2, 3, 5}}), (Numbers{2, 6, 30}));
  EXPECT_EQ(Output(model(1, 0), {{2, 3, 5}}), (Numbers{1, 2, 6}));
  EXPECT_EQ(Output(model(0, 1), {{2, 3, 5}}), (Numbers{30, 15, 5}));
  EXPECT_EQ(Output(model(1, 1), {{2, 3, 5}}), (Numbers{15, 5, 1}));
  ModelMaker rows(26);  // products along axis 0, which is not the last
  rows.Input("x", {2, 2}).Ints("axis", {0}).Output("y").Node("CumProd", {"x", "axis"}, {"y"});
  EXPECT_EQ(Output(rows, {{2, 3, 5, 7}}), (Numbers{2, 3, 10, 21}));
  ModelMaker wide(26);
  wide.Input("x", {3000}).Ints("axis", {1}).Output("y").Node("CumProd", {"x", "axis"}, {"y"});
  EXPECT_THAT(ImportError(wide), HasSubstr("axis"));
}

TEST(NewOperators, LpPools) {
  auto model = [](int64_t p, int ceil_mode, const std::vector<int64_t>& pads) {
    ModelMaker m(18);
    m.Input("x", {1, 1, 4}).Output("y");
    NodeMaker node = m.Node("LpPool", {"x"}, {"y"});
    node.Int("p", p).Int("ceil_mode", ceil_mode).Ints("kernel_shape", {3}).Ints("strides", {2}).Ints("pads", pads);
    return m;
  };
  const Numbers x = {3, -4, 12, 1};
  EXPECT_THAT(Output(model(2, 0, {0, 0}), {x}), Near(Numbers{13}));
  EXPECT_THAT(Output(model(2, 1, {0, 0}), {x}), Near(Numbers{13, std::sqrt(145)}));
  EXPECT_THAT(Output(model(1, 0, {1, 0}), {x}), Near(Numbers{7, 17}));
  EXPECT_THAT(Output(model(3, 0, {1, 0}), {x}), Near(Numbers{std::cbrt(91), std::cbrt(64 + 1728 + 1)}));
  EXPECT_THAT(ImportError(model(0, 0, {0, 0})), HasSubstr("p must be positive, not 0"));
  EXPECT_THAT(ImportError(model(2, 0, {3, 0})), HasSubstr("pads must be smaller than the window"));
  EXPECT_THAT(Output(Single("GlobalLpPool", {1, 1, 2, 2}, 1, 22), {{1, 1, 1, -1}}), Near(Numbers{2}));
  EXPECT_THAT(ImportError(Single("GlobalLpPool", {2, 2}, 1, 22)), HasSubstr("is no image"));
}

ModelMaker GatherNd(const std::vector<int64_t>& data, const std::vector<int64_t>& indices, int64_t batch) {
  ModelMaker m(13);
  m.Input("x", data).Input("i", indices, kInt64).Output("y");
  m.Node("GatherND", {"x", "i"}, {"y"}).Int("batch_dims", batch);
  return m;
}

TEST(NewOperators, GatherAtPlaces) {
  const Numbers x = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(Output(GatherNd({2, 2, 2}, {2, 2}, 0), {x, {0, 1, -1, 0}}), (Numbers{2, 3, 4, 5}));
  EXPECT_EQ(Output(GatherNd({2, 2, 2}, {1, 3}, 0), {x, {1, 0, -1}}), (Numbers{5}));
  EXPECT_EQ(Output(GatherNd({2, 2, 2}, {2, 1}, 1), {x, {1, 0}}), (Numbers{2, 3, 4, 5}));
  EXPECT_THAT(ImportError(GatherNd({2, 2}, {1, 3}, 0)), HasSubstr("do not fit"));
  EXPECT_THAT(ImportError(GatherNd({2, 2}, {3, 1}, 1)), HasSubstr("differ"));
  EXPECT_THAT(ImportError(GatherNd({2, 2}, {2, 1}, 2)), HasSubstr("batch_dims 2 is outside"));
}

TEST(NewOperators, CropsAndPadsAroundTheCentre) {
  auto model = [](const std::vector<int64_t>& shape, const std::vector<int64_t>& axes) {
    ModelMaker m(18);
    m.Input("x", {4, 1}).Ints("shape", shape).Output("y");
    m.Node("CenterCropPad", {"x", "shape"}, {"y"}).Ints("axes", axes);
    return m;
  };
  EXPECT_EQ(Output(model({1, 4}, {0, 1}), {{1, 2, 3, 4}}), (Numbers{0, 2, 0, 0}));
  EXPECT_EQ(Output(model({2}, {-2}), {{1, 2, 3, 4}}), (Numbers{2, 3}));
  EXPECT_THAT(ImportError(model({2, 2}, {0})), HasSubstr("has 2 extents for 1 axes"));
  EXPECT_THAT(ImportError(model({2, 2}, {0, -2})), HasSubstr("names an axis twice"));
}

// Returns a rotary embedding of one token with heads of 4 elements. The first angle is a quarter turn. If all 4
// elements are rotated, the second angle is zero.
ModelMaker Rotary(const std::vector<int64_t>& shape, int64_t heads, int interleaved, int64_t rotated) {
  ModelMaker m(23);
  const bool both = rotated != 2;
  m.Input("x", shape).Floats("cos", {1, 1, both ? 2 : 1}, both ? std::vector<float>{0, 1} : std::vector<float>{0});
  m.Floats("sin", {1, 1, both ? 2 : 1}, both ? std::vector<float>{1, 0} : std::vector<float>{1}).Output("y");
  NodeMaker node = m.Node("RotaryEmbedding", {"x", "cos", "sin"}, {"y"});
  node.Int("num_heads", heads).Int("interleaved", interleaved).Int("rotary_embedding_dim", rotated);
  return m;
}

TEST(NewOperators, RotaryEmbedding) {
  const Numbers x = {1, 2, 3, 4, 5, 6, 7, 8};
  for (const std::vector<int64_t>& shape : {Shape{1, 2, 1, 4}, Shape{1, 1, 8}}) {
    EXPECT_EQ(Output(Rotary(shape, 2, 0, 0), {x}), (Numbers{-3, 2, 1, 4, -7, 6, 5, 8}));
    EXPECT_EQ(Output(Rotary(shape, 2, 1, 4), {x}), (Numbers{-2, 1, 3, 4, -6, 5, 7, 8}));
    EXPECT_EQ(Output(Rotary(shape, 2, 0, 2), {x}), (Numbers{-2, 1, 3, 4, -6, 5, 7, 8}));
  }
  EXPECT_THAT(ImportError(Rotary({1, 1, 8}, 3, 0, 0)), HasSubstr("num_heads 3 does not divide"));
  EXPECT_THAT(ImportError(Rotary({1, 2, 1, 4}, 2, 0, 3)), HasSubstr("cannot rotate 3 of 4 elements"));
  EXPECT_THAT(ImportError(Rotary({1, 2, 2, 4}, 2, 0, 0)), HasSubstr("angles must have shape [1,2,2]"));
  ModelMaker placed(23);
  placed.Input("x", {1, 1, 1, 2}).Floats("cos", {3, 1}, {1, 1, 0}).Floats("sin", {3, 1}, {0, 0, 1});
  placed.Input("at", {1, 1}, kInt64).Output("y").Node("RotaryEmbedding", {"x", "cos", "sin", "at"}, {"y"});
  EXPECT_EQ(Output(placed, {{5, 7}, {2}}), (Numbers{-7, 5}));
  EXPECT_EQ(Output(placed, {{5, 7}, {0}}), (Numbers{5, 7}));
}

}  // namespace
}  // namespace autotune::graph
