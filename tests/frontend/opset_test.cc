// Changes that the operator sets 18 to 28 made to operators.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "frontend/onnx/import.h"
#include "tests/frontend/element_types.h"
#include "tests/frontend/outputs.h"

namespace autotune::graph {
namespace {

using testing::HasSubstr;

TEST(OperatorSets, ANewerFileFormatIsNoted) {
  ModelMaker known(28);
  known.Input("x", {2}).Output("y").Node("Relu", {"x"}, {"y"});
  ModelMaker newer = known;
  EXPECT_TRUE(Import(known)->notes.empty());
  newer.FileFormat(14);
  ASSERT_TRUE(Import(newer).ok());
  ASSERT_EQ(Import(newer)->notes.size(), 1u);
  EXPECT_THAT(Import(newer)->notes[0], HasSubstr("IR version is 14, newer than 13"));
}

TEST(OperatorSets, AxesOfReductionsAreAnInput) {
  for (const char* op : {"ReduceMax", "ReduceMean", "ReduceProd"}) {
    ModelMaker m(18);
    m.Input("x", {2, 2}).Ints("axes", {-1}).Output("y");
    m.Node(op, {"x", "axes"}, {"y"}).Int("keepdims", 0);
    EXPECT_EQ(Outputs(m, {{1, 3, 2, 2}})[0].shape, (Shape{2}));
  }
  ModelMaker attribute(18);
  attribute.Input("x", {2, 2}).Output("y");
  attribute.Node("ReduceMax", {"x"}, {"y"}).Ints("axes", {1});
  EXPECT_THAT(ImportError(attribute), HasSubstr("has 'axes' as an attribute; it is an input since operator set 18"));
  ModelMaker before(17);
  before.Input("x", {2, 2}).Output("y");
  before.Node("ReduceMax", {"x"}, {"y"}).Ints("axes", {1});
  EXPECT_EQ(Output(before, {{1, 3, 2, 2}}), (Numbers{3, 2}));
}

TEST(OperatorSets, ReductionsWithoutAxes) {
  auto reduced = [](const char* op, int noop) {
    ModelMaker m(18);
    m.Input("x", {2}).Output("y");
    m.Node(op, {"x"}, {"y"}).Int("noop_with_empty_axes", noop);
    return Output(m, {{-3, 4}});
  };
  EXPECT_EQ(reduced("ReduceL2", 0), (Numbers{5}));
  EXPECT_EQ(reduced("ReduceL2", 1), (Numbers{3, 4}));  // each element is reduced by itself
  EXPECT_EQ(reduced("ReduceSumSquare", 1), (Numbers{9, 16}));
  EXPECT_EQ(reduced("ReduceMin", 1), (Numbers{-3, 4}));
}

TEST(OperatorSets, ReductionsOfBools) {
  auto model = [](int opset, const char* op) {
    ModelMaker m(opset);
    m.Input("x", {2, 2}, kBool).Ints("axes", {1}).Output("y");
    m.Node(op, {"x", "axes"}, {"y"});
    return m;
  };
  EXPECT_EQ(Output(model(20, "ReduceMax"), {{0, 1, 0, 0}}), (Numbers{1, 0}));
  EXPECT_EQ(Output(model(20, "ReduceMin"), {{1, 1, 0, 1}}), (Numbers{1, 0}));
  EXPECT_THAT(ImportError(model(19, "ReduceMax")),
              HasSubstr("bools can be reduced from operator set 20 on, not in 19"));
  EXPECT_THAT(ImportError(model(20, "ReduceSum")), HasSubstr("is for numbers"));
}

TEST(OperatorSets, ReductionsOfNothing) {
  auto model = [](const char* op, int type) {
    ModelMaker m(20);
    m.Input("x", {2, 0}, type).Ints("axes", {1}).Output("y");
    m.Node(op, {"x", "axes"}, {"y"});
    return m;
  };
  for (auto [op, value] : {std::pair{"ReduceSum", 0.0},
                           {"ReduceProd", 1.0},
                           {"ReduceMax", -kInfinity},
                           {"ReduceMin", kInfinity},
                           {"ReduceL1", 0.0},
                           {"ReduceL2", 0.0},
                           {"ReduceSumSquare", 0.0},
                           {"ReduceLogSum", -kInfinity},
                           {"ReduceLogSumExp", -kInfinity}}) {
    EXPECT_EQ(Output(model(op, kFloat), {{}}), (Numbers{value, value})) << op;
  }
  EXPECT_TRUE(std::isnan(Output(model("ReduceMean", kFloat), {{}})[0]));
  EXPECT_EQ(Output(model("ReduceMax", kInt32), {{}}), Numbers(2, -2147483648.0));
  EXPECT_EQ(Output(model("ReduceMin", kUInt8), {{}}), Numbers(2, 255));
  EXPECT_EQ(Output(model("ReduceMin", kBool), {{}}), Numbers(2, 1));
  EXPECT_EQ(Output(model("ReduceMax", kBool), {{}}), Numbers(2, 0));
  EXPECT_THAT(ImportError(model("ReduceMin", kInt64)), HasSubstr("of no elements of type i64 is not supported"));
  EXPECT_THAT(ImportError(model("ReduceLogSum", kInt32)), HasSubstr("has no value in type i32"));
}

TEST(OperatorSets, SplitIntoPartsOfAboutOneSize) {
  auto model = [](int opset, std::vector<std::string> outputs, int64_t wanted) {
    ModelMaker m(opset);
    m.Input("x", {5});
    for (const std::string& name : outputs) m.Output(name);
    m.Node("Split", {"x"}, outputs).Int("num_outputs", wanted);
    return m;
  };
  auto parts = Outputs(model(18, {"a", "b"}, 2), {{1, 2, 3, 4, 5}});
  EXPECT_EQ(parts[0].data, (Numbers{1, 2, 3}));
  EXPECT_EQ(parts[1].data, (Numbers{4, 5}));
  EXPECT_THAT(ImportError(model(18, {"a", "b"}, 3)), HasSubstr("num_outputs is 3, but the node has 2 outputs"));
  EXPECT_THAT(ImportError(model(18, {"a", "b", "c", "d"}, 4)), HasSubstr("do not split dimension 0"));
  EXPECT_THAT(ImportError(model(17, {"a", "b"}, 2)),
              HasSubstr("no attribute 'num_outputs' in operator set 17; it came with 18"));
}

ModelMaker Padded(int opset, const char* mode, const std::vector<int64_t>& pads, const std::vector<int64_t>& axes) {
  ModelMaker m(opset);
  m.Input("x", {2, 3}).Ints("pads", pads).Ints("axes", axes).Output("y");
  m.Node("Pad", {"x", "pads", "", "axes"}, {"y"}).String("mode", mode);
  return m;
}

TEST(OperatorSets, PadsOfSomeAxes) {
  EXPECT_EQ(Output(Padded(18, "constant", {1, 1}, {-1}), {{1, 2, 3, 4, 5, 6}}),
            (Numbers{0, 1, 2, 3, 0, 0, 4, 5, 6, 0}));
  // The axes are in any order, and negative pads crop.
  EXPECT_EQ(Output(Padded(18, "edge", {0, 1, -2, 0}, {1, 0}), {{1, 2, 3, 4, 5, 6}}), (Numbers{1, 1, 4}));
  EXPECT_THAT(ImportError(Padded(18, "constant", {1, 1}, {0, 1})), HasSubstr("has 2 pads for 2 axes"));
  EXPECT_THAT(ImportError(Padded(18, "constant", {1, 1, 1, 1}, {1, -1})), HasSubstr("names an axis twice"));
  EXPECT_THAT(ImportError(Padded(18, "constant", {1, 1}, {2})), HasSubstr("axis 2 is outside"));
}

TEST(OperatorSets, PadsThatWrapAround) {
  EXPECT_EQ(Output(Padded(19, "wrap", {1, 4}, {1}), {{1, 2, 3, 4, 5, 6}}),
            (Numbers{3, 1, 2, 3, 1, 2, 3, 1, 6, 4, 5, 6, 4, 5, 6, 4}));
  EXPECT_THAT(ImportError(Padded(18, "wrap", {1, 1}, {1})), HasSubstr("mode 'wrap' is not one of constant"));
}

TEST(OperatorSets, QuantizedInBlocks) {
  ModelMaker m(21);
  m.Input("x", {1, 4}).Floats("s", {1, 2}, {1, 2}).Output("y").Output("z");
  m.Node("QuantizeLinear", {"x", "s"}, {"q"}).Int("axis", 1).Int("block_size", 2).Int("output_dtype", 5);  // int16
  m.Node("DequantizeLinear", {"q", "s"}, {"y"}).Int("axis", 1).Int("block_size", 2);
  m.Node("Identity", {"q"}, {"z"});
  auto out = Outputs(m, {{3, 40000, 5, -8}});
  EXPECT_EQ(out[1].data, (Numbers{3, 32767, 2, -4}));
  EXPECT_EQ(out[0].data, (Numbers{3, 32767, 4, -8}));
  auto error = [](int opset, int64_t block, int64_t type) {
    ModelMaker bad(opset);
    bad.Input("x", {1, 4}).Floats("s", {1, 2}, {1, 2}).Output("y");
    bad.Node("QuantizeLinear", {"x", "s"}, {"y"}).Int("axis", 1).Int("block_size", block).Int("output_dtype", type);
    return ImportError(bad);
  };
  EXPECT_THAT(error(21, 3, 5), HasSubstr("no error"));  // the axis has a block of 3 and a block of 1
  EXPECT_THAT(error(21, 1, 5), HasSubstr("must have shape [1,4]"));
  EXPECT_THAT(error(21, 9, 5), HasSubstr("block_size 9 exceeds"));
  EXPECT_THAT(error(21, 2, 6), HasSubstr("to i32 is not supported"));
  EXPECT_THAT(error(20, 2, 5), HasSubstr("no attribute 'block_size' in operator set 20"));
}

ModelMaker Resized(int opset, const std::vector<int64_t>& sizes, const std::vector<int64_t>& axes) {
  ModelMaker m(opset);
  m.Input("x", {1, 2, 4}).Ints("sizes", sizes).Output("y");
  m.Node("Resize", {"x", "", "", "sizes"}, {"y"}).Ints("axes", axes).String("keep_aspect_ratio_policy", "not_larger");
  return m;
}

TEST(OperatorSets, ResizesSomeAxesAndKeepsTheirRatio) {
  EXPECT_EQ(Outputs(Resized(18, {3, 20}, {1, 2}), {Numbers(8, 1)})[0].shape, (Shape{1, 3, 6}));
  EXPECT_EQ(Outputs(Resized(18, {20, 3}, {-1, -2}), {Numbers(8, 1)})[0].shape, (Shape{1, 3, 6}));
  EXPECT_THAT(ImportError(Resized(18, {3, 20, 1}, {1, 2})), HasSubstr("has 3 scales or sizes for 2 axes"));
  EXPECT_THAT(ImportError(Resized(18, {3, 20}, {1, 1})), HasSubstr("names an axis twice"));
  EXPECT_THAT(ImportError(Resized(17, {3, 20}, {1, 2})), HasSubstr("no attribute 'axes' in operator set 17"));
}

ModelMaker Shrunk(const char* mode, const char* coordinates, float scale, int antialias) {
  ModelMaker m(19);
  m.Input("x", {8}).Floats("scales", {1}, {scale}).Output("y");
  m.Node("Resize", {"x", "", "scales"}, {"y"})
      .String("mode", mode)
      .String("coordinate_transformation_mode", coordinates)
      .Int("antialias", antialias);
  return m;
}

TEST(OperatorSets, ResizesWithWiderFilters) {
  const Numbers x = {0, 8, 0, 0, 0, 0, 8, 0};
  // At scale 1/2 the triangle filter has the weights 1/8, 3/8, 3/8, 1/8; beyond the border, the last pixel repeats.
  EXPECT_THAT(Output(Shrunk("linear", "half_pixel", 0.5f, 1), {x}), Near(Numbers{3, 1, 1, 3}));
  EXPECT_THAT(Output(Shrunk("linear", "half_pixel", 0.5f, 0), {x}), Near(Numbers{4, 0, 0, 4}));
  // A filter with more taps than a gather supports: constant input must stay constant, since the weights sum to 1.
  EXPECT_THAT(Output(Shrunk("cubic", "half_pixel", 0.25f, 1), {Numbers(8, 5)}), Near(Numbers{5, 5}));
  EXPECT_THAT(Output(Shrunk("linear", "half_pixel", 2, 1), {Numbers(8, 5)}), Near(Numbers(16, 5)));
}

TEST(OperatorSets, ResizesAroundTheCentre) {
  const Numbers x = {0, 1, 2, 3, 4, 5, 6, 7};
  // 8 * 0.45 = 3.6 elements are requested, and 3 are made. The symmetric mode keeps the centre at that of the input,
  // 3.5.
  Numbers symmetric = Output(Shrunk("linear", "half_pixel_symmetric", 0.45f, 0), {x});
  ASSERT_EQ(symmetric.size(), 3u);
  EXPECT_NEAR(symmetric[1], 3.5, 1e-6);
  EXPECT_NEAR(Output(Shrunk("linear", "half_pixel", 0.45f, 0), {x})[1], 1.5 / 0.45 - 0.5, 1e-6);
  EXPECT_THAT(ImportError(Shrunk("linear", "half_pixel_odd", 0.45f, 0)), HasSubstr("is not one of"));
}

}  // namespace
}  // namespace autotune::graph
