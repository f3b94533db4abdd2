// Shapes, axes and masks that a network computes from shapes and constants, as exporters write them. The importer
// evaluates such computations, and refuses those that depend on the network's inputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "frontend/onnx/import.h"
#include "tests/frontend/element_types.h"
#include "tests/frontend/outputs.h"

namespace autotune {
namespace {

using graph::Shape;
using testing::HasSubstr;

graph::Graph Imported(const ModelMaker& m) {
  Result<ImportedModel> imported = Import(m);
  if (imported.ok()) return imported->module.main();
  ADD_FAILURE() << imported.error().Text();
  graph::GraphBuilder empty;
  empty.Output(empty.AddConstant("", graph::TensorValue::Scalar(0)), "");
  return empty.Finish();
}

Shape OutputShape(const ModelMaker& m) {
  graph::Graph g = Imported(m);
  return g.Spec(g.outputs[0]).shape;
}

// Returns the output, which must be a constant.
Numbers Constant(const ModelMaker& m) {
  graph::Graph g = Imported(m);
  const graph::Constant* c = g.FindConstant(g.outputs[0]);
  if (!c) {
    ADD_FAILURE() << "the output is not a constant";
    return {};
  }
  Numbers numbers;
  graph::TensorValue value = g.ConstantValue(*c);
  for (int64_t i = 0; i < value.spec.NumElements(); ++i) numbers.push_back(value.Number(i));
  return numbers;
}

// TorchScript's x.view(x.size(0), x.size(1), -1, 4).
TEST(ShapeArithmetic, ReshapeFromShapeGatherUnsqueezeConcat) {
  ModelMaker m(13);
  m.Input("x", {2, 3, 8}).Ints("zero", {0}).Ints("minus", {-1}).Ints("four", {4}).Output("y");
  for (int d : {0, 1}) {
    const std::string n = std::to_string(d);
    m.Node("Shape", {"x"}, {"s" + n});
    m.Node("Constant", {}, {"i" + n}).Int("value_int", d);
    m.Node("Gather", {"s" + n, "i" + n}, {"d" + n}).Int("axis", 0);
    m.Node("Unsqueeze", {"d" + n, "zero"}, {"u" + n});
  }
  m.Node("Concat", {"u0", "u1", "minus", "four"}, {"shape"}).Int("axis", 0);
  m.Node("Reshape", {"x", "shape"}, {"y"});
  EXPECT_EQ(OutputShape(m), (Shape{2, 3, 2, 4}));
}

// F.interpolate(x, scale_factor=1.5) computes sizes as floats and rounds them down.
TEST(ShapeArithmetic, SizesAsFloats) {
  ModelMaker m(13);
  m.Input("x", {1, 1, 3, 5}).Floats("scale", {2}, {1.5, 1.5}).Ints("two", {2}).Ints("four", {4}).Ints("zero", {0});
  m.Output("y");
  m.Node("Shape", {"x"}, {"s"});
  m.Node("Slice", {"s", "two", "four", "zero"}, {"hw"});
  m.Node("Cast", {"hw"}, {"f"}).Int("to", kFloat);
  m.Node("Mul", {"f", "scale"}, {"g"});
  m.Node("Floor", {"g"}, {"h"});
  m.Node("Cast", {"h"}, {"sizes"}).Int("to", kInt64);
  m.Node("Slice", {"s", "zero", "two", "zero"}, {"nc"});
  m.Node("Concat", {"nc", "sizes"}, {"all"}).Int("axis", 0);
  m.Node("Resize", {"x", "", "", "all"}, {"y"}).String("mode", "nearest");
  EXPECT_EQ(OutputShape(m), (Shape{1, 1, 4, 7}));
}

// A causal mask as the Python library transformers computes it: each position attends to itself and to earlier
// positions.
TEST(ShapeArithmetic, CausalMaskOfRangeAndLess) {
  ModelMaker m(17);
  m.Input("x", {1, 3}).Ints("row", {1, 3}).Output("y");
  m.Floats("low", {}, {-9}).Floats("none", {}, {0}).Ints("axis0", {0}).Ints("axis1", {1});
  m.Node("Shape", {"x"}, {"s"}).Int("start", 1).Int("end", 2);
  m.Node("Squeeze", {"s"}, {"n"});
  m.Node("Constant", {}, {"start"}).Int("value_int", 0);
  m.Node("Constant", {}, {"step"}).Int("value_int", 1);
  m.Node("Range", {"start", "n", "step"}, {"r"});
  m.Node("Unsqueeze", {"r", "axis1"}, {"column"});
  m.Node("Less", {"column", "r"}, {"later"});
  m.Node("Where", {"later", "low", "none"}, {"y"});
  EXPECT_EQ(Constant(m), (Numbers{0, -9, -9, 0, 0, -9, 0, 0, 0}));
}

// The start of the range follows from a constant that is too large to be folded immediately.
TEST(ShapeArithmetic, RangeFromALargeConstant) {
  std::vector<int64_t> large(1100, 9);
  large[7] = 3;
  ModelMaker m(17);
  m.Ints("large", large).Ints("limit", {6}).Ints("step", {1}).Output("y");
  m.Node("ReduceMin", {"large"}, {"start"}).Int("keepdims", 0);
  m.Node("Range", {"start", "limit", "step"}, {"y"});
  EXPECT_EQ(Constant(m), (Numbers{3, 4, 5}));
  ModelMaker open(17);
  open.Input("start", {}, kInt64).Ints("limit", {6}).Ints("step", {1}).Output("y");
  open.Node("Range", {"start", "limit", "step"}, {"y"});
  EXPECT_THAT(ImportError(open), HasSubstr("start is computed at run time"));
}

// Doubles hold integers up to 2^53 only.
TEST(ShapeArithmetic, RangeOfLargeIntegers) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
  struct Case {
    int64_t start, limit, delta;
    Numbers steps;  // the range, minus its start
  };
  const int64_t beyond = (int64_t{1} << 53) + 1;
  const Case cases[] = {
      {beyond, beyond + 7, 3, {0, 3, 6}},  {kMost - 5, kMost, 2, {0, 2, 4}}, {kLeast + 5, kLeast, -3, {0, -3}},
      {-beyond, -beyond - 2, -1, {0, -1}}, {kMost, kLeast, 1, {}},           {beyond, beyond, -1, {}}};
  for (const Case& c : cases) {
    ModelMaker m(17);
    m.Ints("start", {c.start}).Ints("limit", {c.limit}).Ints("delta", {c.delta}).Output("y");
    m.Node("Range", {"start", "limit", "delta"}, {"r"});
    m.Node("Sub", {"r", "start"}, {"y"});
    EXPECT_EQ(OutputShape(m), Shape{static_cast<int64_t>(c.steps.size())}) << c.start;
    EXPECT_EQ(Constant(m), c.steps) << c.start;
  }
  ModelMaker wide(17), mixed(17);
  wide.Ints("start", {kLeast}).Ints("limit", {kMost}).Ints("delta", {kMost}).Output("y");
  wide.Node("Range", {"start", "limit", "delta"}, {"y"});
  EXPECT_EQ(OutputShape(wide), (Shape{3}));
  mixed.Ints("start", {0}).Ints("limit", {4}).Floats("delta", {}, {1.0F}).Output("y");
  mixed.Node("Range", {"start", "limit", "delta"}, {"y"});
  EXPECT_THAT(ImportError(mixed), HasSubstr("start, limit and delta have the types i64, i64 and f32"));
}

// For Expand's shape torch writes Where(shape == -1, ones, shape).
TEST(ShapeArithmetic, ExpandOfConstantOfShapeEqualWhere) {
  ModelMaker m(13);
  m.Input("x", {1, 3}).Ints("wanted", {2, -1, 3}).Ints("rank", {3}).Output("y");
  m.Node("ConstantOfShape", {"rank"}, {"zeros"});  // f32, the default type
  m.Node("Cast", {"zeros"}, {"z"}).Int("to", kInt64);
  m.Node("Constant", {}, {"minus"}).Int("value_int", -1);
  m.Node("Add", {"z", "minus"}, {"minuses"});
  m.Node("Neg", {"minuses"}, {"ones"});
  m.Node("Equal", {"wanted", "minuses"}, {"open"});
  m.Node("Where", {"open", "ones", "wanted"}, {"shape"});
  m.Node("Expand", {"x", "shape"}, {"y"});
  EXPECT_EQ(OutputShape(m), (Shape{2, 1, 3}));
}

// tf2onnx computes shapes in int32, with products of sizes.
TEST(ShapeArithmetic, SizesAsInt32) {
  ModelMaker m(13);
  m.Input("x", {2, 3, 4}).Ints("minus", {-1}).Output("y");
  m.Node("Shape", {"x"}, {"s"});
  m.Node("Cast", {"s"}, {"s32"}).Int("to", kInt32);
  m.Node("ReduceProd", {"s32"}, {"all"}).Int("keepdims", 1).Ints("axes", {0});
  m.Node("Cast", {"all"}, {"shape"}).Int("to", kInt64);
  m.Node("Reshape", {"x", "shape"}, {"y"});
  EXPECT_EQ(OutputShape(m), Shape{24});
}

TEST(ShapeArithmetic, TileTransposeMinMaxAndMath) {
  ModelMaker m(13);
  m.Input("x", {2, 3, 4}).Ints("one", {1}).Ints("two", {2}).Ints("three", {3}).Ints("pads", {0, 1, 2, 3}).Output("y");
  // torch lists the pads of an image from the last dimension to the first, so the exporter reshapes, reverses and
  // transposes them.
  m.Ints("pairs", {-1, 2}).Ints("minus", {-1}).Ints("least", {-999}).Ints("zero", {0});
  m.Node("Reshape", {"pads", "pairs"}, {"p"});
  m.Node("Slice", {"p", "minus", "least", "zero", "minus"}, {"r"});
  m.Node("Transpose", {"r"}, {"t"}).Ints("perm", {1, 0});
  m.Node("Reshape", {"t", "minus"}, {"flat"});
  m.Node("Mod", {"flat", "three"}, {"mod"});
  m.Node("Max", {"mod", "one"}, {"max"});
  m.Node("Min", {"max", "two"}, {"y"});
  EXPECT_EQ(Constant(m), (Numbers{2, 1, 1, 1}));
}

TEST(ShapeArithmetic, NonZeroOfConstants) {
  ModelMaker m(13);
  m.Input("x", {2, 3}).Ints("shape", {2, 2}).Output("y");
  m.Node("EyeLike", {"x"}, {"eye"});
  m.Node("NonZero", {"eye"}, {"y"});
  EXPECT_EQ(Constant(m), (Numbers{0, 1, 0, 1}));
  ModelMaker data(13);
  data.Input("x", {2, 3}).Output("y");
  data.Node("NonZero", {"x"}, {"y"});
  EXPECT_THAT(ImportError(data), HasSubstr("NonZero (node #0): has a result whose shape depends on values"));
}

// The import computes a large constant only where it needs the value, here for NonZero. For other uses a kernel
// computes it, here for Mul.
TEST(ShapeArithmetic, LargeConstantsAreComputedOnlyIfTheirValueIsNeeded) {
  ModelMaker m(13);
  m.Input("x", {64, 64}).Ints("n", {64, 64}).Floats("half", {}, {0.5}).Output("y").Output("where");
  m.Node("ConstantOfShape", {"n"}, {"zeros"});
  m.Node("Add", {"zeros", "half"}, {"halves"});
  m.Node("Mul", {"x", "halves"}, {"y"});
  m.Node("Floor", {"halves"}, {"none"});
  m.Node("NonZero", {"none"}, {"where"});
  graph::Graph g = Imported(m);
  EXPECT_TRUE(std::any_of(g.nodes.begin(), g.nodes.end(), [](auto& n) { return n.op == graph::Op::kAdd; }));
  EXPECT_EQ(g.Spec(g.outputs[1]).shape, (Shape{2, 0}));
}

// A small file may request any amount of work on constants. The importer gives up after a fixed number of stores, which
// take a second or two.
TEST(ShapeArithmetic, WorkIsBounded) {
  for (int64_t n : {32, 512}) {
    ModelMaker m(13);
    m.Input("x", {2}).Ints("n", {n, n}).Floats("half", {}, {0.5}).Output("y");
    m.Node("ConstantOfShape", {"n"}, {"zeros"});
    m.Node("Add", {"zeros", "half"}, {"halves"});
    m.Node("MatMul", {"halves", "halves"}, {"product"});
    m.Node("NonZero", {"product"}, {"y"}, "where");
    if (n == 32) {
      EXPECT_EQ(OutputShape(m), (Shape{2, n * n}));
    } else {
      EXPECT_THAT(ImportError(m),
                  HasSubstr("NonZero (node 'where'): has a result whose shape depends on values that are "
                            "computed at run time, or take too long to compute at import"));
    }
  }
}

TEST(ShapeArithmetic, BranchesOnShapes) {
  // TorchScript's squeeze(dim=1) becomes If (size == 1) squeeze else keep.
  for (int64_t size : {1, 2}) {
    ModelMaker squeeze(13), keep(13), m(13);
    squeeze.Output("a").Ints("axis", {1});
    squeeze.Node("Squeeze", {"x", "axis"}, {"a"});
    keep.Output("b");
    keep.Node("Identity", {"x"}, {"b"});
    m.Input("x", {3, size}).Output("y");
    m.Node("Shape", {"x"}, {"s"});
    m.Node("Constant", {}, {"i"}).Int("value_int", 1);
    m.Node("Gather", {"s", "i"}, {"d"});
    m.Node("Equal", {"d", "i"}, {"is"});
    m.Node("If", {"is"}, {"y"}).Graph("then_branch", squeeze).Graph("else_branch", keep);
    EXPECT_EQ(OutputShape(m), size == 1 ? Shape{3} : (Shape{3, 2}));
  }
}

TEST(ShapeArithmetic, WhatDependsOnDataIsRefused) {
  ModelMaker m(13);
  m.Input("x", {2, 3}).Output("y");
  m.Node("ReduceMax", {"x"}, {"most"}).Int("keepdims", 0);
  m.Node("Cast", {"most"}, {"n"}).Int("to", kInt64);
  m.Node("Reshape", {"n", "minus"}, {"shape"});
  m.Ints("minus", {-1});
  m.Node("Expand", {"x", "shape"}, {"y"}, "e");
  EXPECT_EQ(ImportError(m),
            "m.onnx cannot be imported: Expand (node 'e'): the shape of Expand is computed at run time; it must be a "
            "constant");
}

TEST(ShapeArithmetic, WhatIsUndefinedIsNoConstant) {
  ModelMaker m(13);
  m.Input("x", {2}).Ints("a", {6}).Ints("zero", {0}).Output("y");
  m.Node("Div", {"a", "zero"}, {"shape"}, "d");
  m.Node("Reshape", {"x", "shape"}, {"y"});
  EXPECT_THAT(ImportError(m), HasSubstr("Div (node 'd'): integer division by 0"));
  // The importer computes constants as doubles, which are inexact for integers beyond 2^53. So it leaves this sum to a
  // kernel.
  ModelMaker large(13);
  large.Input("x", {2}).Ints("shape", {1, 1}).Ints("huge", {int64_t{1} << 60}).Output("y");
  large.Node("Reshape", {"huge", "shape"}, {"a"});
  large.Node("Add", {"a", "a"}, {"y"});
  graph::Graph g = Imported(large);
  EXPECT_EQ(g.FindConstant(g.outputs[0]), nullptr);
}

}  // namespace
}  // namespace autotune
