#include "graph/extract.h"

#include <gtest/gtest.h>

#include "tests/graph/maker.h"

namespace autotune::graph {
namespace {

TEST(Extract, TextHasNoNamesAndOnlyLiteralValues) {
  auto make = [](const std::string& name, float literal, uint64_t seed, bool swapped) {
    Maker m(seed);
    ValueId x = m.b.Input(name, F32({2, 3}));
    ValueId y = m.b.Must(Op::kMatmul, {x, m.Random({3, 4})}, {}, name);
    ValueId c = m.b.AddConstant(name, TensorValue::Of<float>({1}, {literal}));
    y = swapped ? m.b.Must(Op::kMul, {c, y}) : m.b.Must(Op::kMul, {y, c});
    m.b.Output(y, name);
    PassEnv env;
    return ExtractTasks(*Fuse(m.b.Finish(), env))[0];
  };
  Task t = make("a", 2, 1, false);
  EXPECT_EQ(t.text,
            "subgraph v1\n"
            "%0 = input f32[2,3]\n"
            "%1 = constant f32[3,4]\n"
            "%2 = constant f32[1] 0x40000000\n"
            "%3 = matmul(%0, %1) : f32[2,4]\n"
            "%4 = mul(%3, %2) : f32[2,4]\n"
            "output %4\n");
  EXPECT_EQ(t.hash, make("b", 2, 99, true).hash);
  EXPECT_NE(t.hash, make("a", 3, 1, false).hash);
}

// A family has one schedule for all numbers of sums, products and bounds. The same number may stand in two places.
TEST(Extract, FamiliesLeaveOutNumbersOnWhichNoScheduleDepends) {
  auto family = [](float scale, float limit, int64_t columns, bool divides = false) {
    Maker m(1);
    ValueId y = m.b.Must(Op::kMatmul, {m.b.Input("x", F32({2, 3})), m.Random({3, columns})});
    const auto number = [&](float value) { return m.b.AddConstant("", TensorValue::Of<float>({}, {value})); };
    const ValueId least = number(limit);
    const ValueId factor = scale == limit ? least : number(scale);
    y = m.b.Must(divides ? Op::kDiv : Op::kMul, {m.b.Must(Op::kMax, {y, least}), factor});
    m.b.Output(y, "y");
    return FamilyOf(*ExtractTasks(*Fuse(m.b.Finish(), {}))[0].subgraph);
  };
  EXPECT_EQ(family(0.5f, 0, 4), family(2, 0, 4));
  EXPECT_EQ(family(0.5f, 3, 4), family(3, 3, 4)) << "a shared constant";
  EXPECT_EQ(family(0.5f, 0, 4), family(0.5f, 1, 4)) << "a bound";
  EXPECT_NE(family(0.5f, 0, 4), family(0.5f, 0, 5)) << "another shape";
  EXPECT_NE(family(0.5f, 0, 4), family(0.5f, 0, 4, true)) << "another operator";
}

TEST(Extract, FamiliesLeaveOutTheBoundsOfAClip) {
  auto family = [](float high, double exponent = 2) {
    Maker m(1);
    const ValueId x = m.b.Must(Op::kClip, {m.b.Input("x", F32({4, 4}))}, ClipAttrs{0, high});
    m.b.Output(m.b.Must(Op::kPow, {x, m.b.AddConstant("", TensorValue::Scalar(static_cast<float>(exponent)))}), "y");
    return FamilyOf(*ExtractTasks(*Fuse(m.b.Finish(), {}))[0].subgraph);
  };
  EXPECT_EQ(family(6), family(4.5f));
  EXPECT_NE(family(6), family(INFINITY)) << "no bound";
  EXPECT_NE(family(6), family(6, 3)) << "powers differ in their code";
}

TEST(Extract, FamiliesLeaveOutTheNumberOfAPadding) {
  auto family = [](int64_t pad_value) {
    Maker m(1);
    const ValueId x = m.b.Input("x", {DType::UInt(8), {1, 8, 8, 4}});
    const ValueId w = m.b.AddConstant("w", {{DType::Int(8), {3, 3, 4, 8}}, SharedBytes::Copy(std::string(288, 1))});
    m.b.Output(
        m.b.Must(Op::kConv2d, {x, w}, ConvAttrs{.pads = {1, 1, 1, 1}, .layout = Layout::kNHWC, .pad_value = pad_value}),
        "y");
    return FamilyOf(*ExtractTasks(*Fuse(m.b.Finish(), {}))[0].subgraph);
  };
  EXPECT_EQ(family(3), family(128));
  EXPECT_NE(family(0), family(128)) << "products with zeros are skipped";
}

TEST(Extract, FamiliesLeaveOutSignsOfBytes) {
  auto family = [](DType x, DType y, bool multiplies) {
    Maker m(1);
    ValueId bytes = m.b.Input("x", {x, {8, 16}});
    if (multiplies) {
      const ValueId w = m.b.AddConstant("w", {{DType::Int(8), {16, 8}}, SharedBytes::Copy(std::string(128, 1))});
      bytes = m.b.Must(Op::kMatmul, {bytes, w});
    }
    const ValueId sum = m.b.Must(Op::kAdd, {m.b.Must(Op::kCast, {bytes}, CastAttrs{DType::Int(32)}),
                                            m.b.AddConstant("", TensorValue::Of<int32_t>({}, {3}))});
    m.b.Output(m.b.Must(Op::kCast, {sum}, CastAttrs{y}), "y");
    return FamilyOf(*ExtractTasks(*Fuse(m.b.Finish(), {}))[0].subgraph);
  };
  const DType u8 = DType::UInt(8), i8 = DType::Int(8), u16 = DType::UInt(16);
  for (const bool multiplies : {false, true}) {
    EXPECT_EQ(family(u8, u8, multiplies), family(u8, i8, multiplies));
    EXPECT_NE(family(u8, u8, multiplies), family(u8, u16, multiplies)) << "other bytes";
    EXPECT_EQ(family(u8, u8, multiplies) == family(i8, u8, multiplies), !multiplies);
  }
}

// Databases store these hashes. If a hash changes, old records are no longer found, so a change of the text needs a new
// version in its first line.
TEST(Extract, HashGolden) {
  Maker m(1);
  ValueId x = m.b.Input("x", F32({1, 8, 8, 4}));
  ConvAttrs a;
  a.layout = Layout::kNHWC;
  a.pads = {1, 1, 1, 1};
  ValueId y = m.b.Must(Op::kConv2d, {x, m.Random({3, 3, 4, 8})}, a);
  y = m.b.Must(Op::kClip, {m.b.Must(Op::kAdd, {y, m.Random({1, 1, 1, 8})})}, ClipAttrs{0, 6});
  m.b.Output(y, "y");
  PassEnv env;
  Task t = ExtractTasks(*Fuse(m.b.Finish(), env))[0];
  EXPECT_EQ(
      t.text,
      "subgraph v1\n"
      "%0 = input f32[1,8,8,4]\n"
      "%1 = constant f32[3,3,4,8]\n"
      "%2 = constant f32[1,1,1,8]\n"
      "%3 = conv2d(%0, %1) {strides=[1,1], pads=[1,1,1,1], dilations=[1,1], groups=1, layout=NHWC} : f32[1,8,8,8]\n"
      "%4 = add(%3, %2) : f32[1,8,8,8]\n"
      "%5 = clip(%4) {min=0, max=6} : f32[1,8,8,8]\n"
      "output %5\n");
  EXPECT_EQ(t.hash.Hex(), "0a9cd250338907379b7e64218af154f8");
}

}  // namespace
}  // namespace autotune::graph
