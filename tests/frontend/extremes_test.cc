// Numbers at the limits of their type: NaN, infinities, and integers that a double cannot represent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "frontend/onnx/import.h"
#include "tests/frontend/element_types.h"
#include "tests/frontend/outputs.h"

namespace autotune::graph {
namespace {

using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool Same(const Numbers& a, const Numbers& b) { return testing::Matches(Near(b))(a); }

TEST(Extremes, MaximaAndMinimaKeepNan) {
  const Numbers a = {kNan, 1, kNan, 2}, b = {1, kNan, kNan, 3};
  for (const char* op : {"Max", "Min"}) {
    const bool largest = std::string(op) == "Max";
    ModelMaker two;
    two.Input("a", {4}).Input("b", {4}).Output("y").Node(op, {"a", "b"}, {"y"});
    EXPECT_TRUE(Same(Output(two, {a, b}), {kNan, kNan, kNan, largest ? 3.0 : 2.0})) << op;
    ModelMaker constant;
    constant.Input("a", {4}).Floats("b", {}, {1.5f}).Output("y").Node(op, {"a", "b"}, {"y"});
    EXPECT_TRUE(Same(Output(constant, {a}), {kNan, largest ? 1.5 : 1.0, kNan, largest ? 2.0 : 1.5})) << op;
    EXPECT_EQ(Import(constant)->module.main().nodes.size(), 1u);  // the constant needs no node
    ModelMaker nan;
    nan.Input("a", {4}).Floats("b", {}, {std::nanf("")}).Output("y").Node(op, {"a", "b"}, {"y"});
    EXPECT_TRUE(Same(Output(nan, {b}), Numbers(4, kNan))) << op;
    ModelMaker integers;
    integers.Input("a", {2}, kInt32).Input("b", {2}, kInt32).Output("y").Node(op, {"a", "b"}, {"y"});
    EXPECT_EQ(Output(integers, {{1, 5}, {2, 4}}), (largest ? Numbers{2, 5} : Numbers{1, 4}));
    EXPECT_EQ(Import(integers)->module.main().nodes.size(), 1u);
  }
}

TEST(Extremes, SignOfNan) {
  ModelMaker m;
  m.Input("x", {5}).Output("y").Node("Sign", {"x"}, {"y"});
  EXPECT_TRUE(Same(Output(m, {{kNan, -kInfinity, 0, 0.5, kInfinity}}), {kNan, -1, 0, 1, 1}));
}

TEST(Extremes, LogSumExpOfInfinities) {
  for (int type : {kFloat, kDouble}) {
    ModelMaker m;
    m.Input("x", {5, 2}, type).Output("y");
    m.Node("ReduceLogSumExp", {"x"}, {"y"}).Ints("axes", {1}).Int("keepdims", 0);
    const Numbers y = Output(m, {{-kInfinity, -kInfinity, -kInfinity, 1, kInfinity, 1, 1000, 1000, kNan, kInfinity}});
    EXPECT_TRUE(Same(y, {-kInfinity, 1, kInfinity, 1000 + std::log(2), kNan})) << y[0] << " " << y[2];
  }
}

// The 1 of the largest exponential would cover the digits of the others.
TEST(Extremes, LogarithmsOfSumsKeepSmallDigits) {
  for (int type : {kFloat, kDouble}) {
    const double x = type == kFloat ? -13 : -40, tolerance = type == kFloat ? 1e-6 : 1e-14;
    const double rest = 2 * std::exp(x), small = std::log1p(rest);
    ModelMaker sum(13);
    sum.Input("x", {4}, type).Output("y").Node("ReduceLogSumExp", {"x"}, {"y"}).Int("keepdims", 0);
    EXPECT_NEAR(Output(sum, {{x, 0, x, 2 * x}})[0] / small, 1, tolerance + std::exp(x));
    EXPECT_NEAR(Output(sum, {{x, 0, 0, x}})[0], std::log(2 + rest), tolerance);
    ModelMaker row(13);
    row.Input("x", {1, 4}, type).Output("y").Node("LogSoftmax", {"x"}, {"y"});
    const Numbers y = Output(row, {{x + 3, 3, x + 3, 2 * x + 3}});
    EXPECT_NEAR(y[1] / -small, 1, tolerance + std::exp(x));
    EXPECT_NEAR(y[0], x - small, 1e-6);
  }
}

// The mean of ones is 1. The product with a rounded reciprocal would be less than 1 for some numbers of them.
TEST(Extremes, MeansOfOnesAreOne) {
  for (int64_t n = 2; n < 64; ++n) {
    ModelMaker m;
    m.Input("x", {n}).Output("y").Output("z");
    m.Node("ReduceMean", {"x"}, {"mean"}).Int("keepdims", 0);
    m.Node("Mean", std::vector<std::string>(n, "x"), {"same"});
    m.Node("Floor", {"mean"}, {"y"});
    m.Node("Floor", {"same"}, {"z"});
    Numbers x(static_cast<size_t>(n), 1);
    EXPECT_EQ(Outputs(m, {x})[0].data, Numbers{1}) << n;
    EXPECT_EQ(Outputs(m, {x})[1].data, x) << n;
    x[0] = 0.9;
    EXPECT_EQ(Outputs(m, {x})[0].data, Numbers{0}) << n;
    EXPECT_EQ(Outputs(m, {x})[1].data[0], 0) << n;
  }
}

// Some reductions of integers are computed in floats; their results drop the fractional part.
TEST(Extremes, ReductionsOfIntegersInFloats) {
  auto reduced = [](const char* op, int type, const Numbers& x) {
    ModelMaker m;
    m.Input("x", {static_cast<int64_t>(x.size())}, type).Output("y");
    m.Node(op, {"x"}, {"y"}).Int("keepdims", 0);
    const auto y = Outputs(m, {x})[0];
    EXPECT_EQ(y.dtype, type == kInt32 ? DType::Int(32) : DType::Int(64));
    return y.data;
  };
  for (int type : {kInt32, kInt64}) {
    EXPECT_EQ(reduced("ReduceMean", type, {5, 2, 1, 2}), (Numbers{2}));
    EXPECT_EQ(reduced("ReduceMean", type, {-5, -2, -1, -2}), (Numbers{-2}));
    EXPECT_EQ(reduced("ReduceMean", type, Numbers(49, 1)), (Numbers{1}));  // 49 * (1.0 / 49) is less than 1 in doubles
    EXPECT_EQ(reduced("ReduceL2", type, {-3, 4, 1}), (Numbers{5}));
    EXPECT_EQ(reduced("ReduceLogSum", type, {3, 5}), (Numbers{2}));
    EXPECT_EQ(reduced("ReduceLogSumExp", type, {9, 9}), (Numbers{9}));
  }
}

TEST(Extremes, PadsWithANumberThatIsComputed) {
  auto model = [](const std::vector<int64_t>& value_shape) {
    ModelMaker m;
    m.Input("x", {2}).Input("value", value_shape).Ints("pads", {1, 2}).Output("y");
    m.Node("Pad", {"x", "pads", "value"}, {"y"});
    return m;
  };
  EXPECT_EQ(Output(model({}), {{5, 6}, {7}}), (Numbers{7, 5, 6, 7, 7}));
  EXPECT_EQ(Output(model({1}), {{5, 6}, {7}}), (Numbers{7, 5, 6, 7, 7}));
  EXPECT_THAT(ImportError(model({2})), HasSubstr("cannot reshape"));
}

// A pad value that a double represents becomes an attribute of kPad. 2^62 + 1 must not, since the attribute would be
// 2^62.
TEST(Extremes, PadsWithAnyInteger) {
  constexpr int64_t kOdd = (int64_t{1} << 62) + 1;
  for (int64_t value : {kOdd, int64_t{-7}}) {
    ModelMaker m;
    m.Input("x", {2}, kInt64).Ints("value", {value}).Ints("pads", {1, 0}).Output("y");
    m.Node("Pad", {"x", "pads", "value"}, {"y"});
    Result<ImportedModel> imported = Import(m);
    ASSERT_TRUE(imported.ok()) << imported.error().Text();
    const Graph& g = imported->module.main();
    EXPECT_EQ(g.nodes.back().op == Op::kPad, value != kOdd);
    for (const Node& node : g.nodes) {
      if (const auto* pad = std::get_if<PadAttrs>(&node.attrs)) {
        EXPECT_EQ(pad->value, value == kOdd ? 0 : -7);
      }
    }
  }
}

// A kernel gives some result for x / 0, so it is refused only where both operands are constants.
TEST(Extremes, ConstantsDividedByZeroAreRefused) {
  for (int type : {kInt8, kUInt8}) {
    for (const char* op : {"Div", "Mod"}) {
      ModelMaker m(14);
      m.Bytes8("a", {1, 2}, {6, 7}, type).Bytes8("b", {2}, {2, 0}, type).Output("y").Node(op, {"a", "b"}, {"y"});
      EXPECT_THAT(ImportError(m), HasSubstr("integer division by 0")) << op;
      ModelMaker computed(14);
      computed.Input("a", {1, 2}, type).Bytes8("b", {2}, {2, 0}, type).Output("y").Node(op, {"a", "b"}, {"y"});
      EXPECT_EQ(ImportError(computed), "no error") << op;
    }
  }
  ModelMaker floats;
  floats.Floats("a", {2}, {6, 7}).Floats("b", {2}, {2, 0}).Output("y").Node("Div", {"a", "b"}, {"y"});
  EXPECT_EQ(Output(floats, {}), (Numbers{3, kInfinity}));
}

TEST(Extremes, CastsOfLargeConstants) {
  for (int64_t value : {std::numeric_limits<int64_t>::max(), int64_t{7}}) {
    ModelMaker m;
    m.Ints("x", {value, 1}).Output("y").Node("Cast", {"x"}, {"y"}).Int("to", kInt32);
    Result<ImportedModel> imported = Import(m);
    ASSERT_TRUE(imported.ok()) << imported.error().Text();
    EXPECT_EQ(imported->module.main().nodes.empty(), value == 7);  // a kernel casts the large number
  }
  ModelMaker nan;
  nan.Floats("x", {2}, {std::nanf(""), 2.5f}).Output("y").Node("Cast", {"x"}, {"y"}).Int("to", kInt32);
  EXPECT_EQ(ImportError(nan), "no error");
}

TEST(Extremes, QuantizesIntegers) {
  auto model = [](int type) {
    ModelMaker m;
    m.Input("x", {4}, type).Floats("scale", {}, {2}).Bytes8("zero", {}, {1}, kInt8).Output("y");
    m.Node("QuantizeLinear", {"x", "scale", "zero"}, {"y"});
    return m;
  };
  EXPECT_EQ(Output(model(kInt32), {{8, -6, 3, 1000}}), (Numbers{5, -2, 3, 127}));
  EXPECT_THAT(ImportError(model(kInt64)), HasSubstr("is supported on f32 and i32, not on i64[4]"));
}

// An empty range has the scale 1, so that nothing is divided by 0. ONNX's reference implementation says so.
TEST(Extremes, QuantizesZeros) {
  const auto outputs = [](const Numbers& x) {
    std::vector<Numbers> found;
    for (const char* name : {"y", "scale", "zero"}) {
      ModelMaker m;
      m.Input("x", {4}).Output(name).Node("DynamicQuantizeLinear", {"x"}, {"y", "scale", "zero"});
      found.push_back(Output(m, {x}));
    }
    return found;
  };
  EXPECT_EQ(outputs({0, 0, 0, 0}), (std::vector<Numbers>{{0, 0, 0, 0}, {1}, {0}}));
  EXPECT_EQ(outputs({255, 0, 2, 0}), (std::vector<Numbers>{{255, 0, 2, 0}, {1}, {0}}));
  EXPECT_EQ(outputs({0, -510, 0, 0}), (std::vector<Numbers>{{255, 0, 255, 255}, {2}, {255}}));
}

}  // namespace
}  // namespace autotune::graph
