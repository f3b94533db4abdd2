// Tensors without elements: the importer removes them, so no kernel gets one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontend/onnx/import.h"
#include "tests/frontend/model_maker.h"
#include "tests/graph/reference.h"

namespace autotune::graph {
namespace {

using testing::HasSubstr;

// Returns the model's first output. Inputs are filled with ones.
reference::Tensor Evaluated(const ModelMaker& model) {
  Result<ImportedModel> imported = Import(model);
  if (!imported.ok()) {
    ADD_FAILURE() << imported.error().Text();
    return {};
  }
  std::vector<reference::Tensor> inputs;
  for (ValueId v : imported->module.main().inputs) {
    const TensorSpec& spec = imported->module.main().Spec(v);
    inputs.push_back({spec.shape, std::vector<double>(spec.NumElements(), 1)});
  }
  return reference::Evaluate(imported->module.main(), inputs)[0];
}

Shape EmptyShape(const ModelMaker& model) {
  reference::Tensor y = Evaluated(model);
  EXPECT_TRUE(y.data.empty());
  return y.shape;
}

TEST(EmptyTensor, AnInputIsKnownAtImport) {
  ModelMaker m;
  m.Input("x", {3, 0}).Input("b", {3, 1}).Output("y");
  m.Node("Relu", {"x"}, {"positive"});
  m.Node("Add", {"positive", "b"}, {"y"});
  EXPECT_EQ(EmptyShape(m), (Shape{3, 0}));
  ImportedModel imported = *Import(m);
  EXPECT_EQ(imported.module.main().inputs.size(), 2u);  // the caller still passes the input
  EXPECT_TRUE(imported.module.main().nodes.empty());
}

TEST(EmptyTensor, ConvolutionWithoutOutputChannels) {
  ModelMaker m;
  m.Input("x", {1, 4, 3, 5}).Floats("w", {0, 4, 2, 1}, {}).Output("y");
  m.Node("Conv", {"x", "w"}, {"y"});
  EXPECT_EQ(EmptyShape(m), (Shape{1, 0, 2, 5}));
}

TEST(EmptyTensor, SlicesOfAnyStep) {
  for (int64_t step : {1, 3, -1, -4}) {
    for (int64_t extent : {0, 5}) {
      ModelMaker m;
      m.Input("x", {extent, 2}).Ints("start", {3}).Ints("end", {3}).Ints("axis", {0}).Ints("step", {step}).Output("y");
      m.Node("Slice", {"x", "start", "end", "axis", "step"}, {"y"});
      EXPECT_EQ(EmptyShape(m), (Shape{0, 2})) << step << " " << extent;
    }
  }
}

TEST(EmptyTensor, PartsOfASplit) {
  ModelMaker m;
  m.Input("x", {2, 4}).Ints("sizes", {0, 4}).Output("none").Output("all");
  m.Node("Split", {"x", "sizes"}, {"none", "all"}).Int("axis", 1);
  EXPECT_EQ(EmptyShape(m), (Shape{2, 0}));
  ModelMaker negative;
  negative.Ints("x", {1, 2, 3}).Ints("sizes", {-1, 4}).Output("y");
  negative.Node("Split", {"x", "sizes"}, {"y", "z"});
  EXPECT_THAT(ImportError(negative), HasSubstr("sizes [-1,4] do not split"));
  constexpr int64_t kQuarter = int64_t{1} << 62;  // four of them overflow to 0 in 64 bits
  ModelMaker wraps;
  wraps.Ints("x", {1, 2, 3}).Ints("sizes", {kQuarter, kQuarter, kQuarter, kQuarter, 3}).Output("e");
  wraps.Node("Split", {"x", "sizes"}, {"a", "b", "c", "d", "e"});
  EXPECT_THAT(ImportError(wraps), HasSubstr("do not split"));
}

TEST(EmptyTensor, ConcatPassesOverIt) {
  ModelMaker one;
  one.Input("x", {1, 2}).Floats("b", {1, 0}, {}).Output("y");
  one.Node("Concat", {"b", "x", "b"}, {"y"}).Int("axis", 1);
  EXPECT_EQ(Evaluated(one).data, (std::vector<double>{1, 1}));
  ModelMaker two;
  two.Input("x", {1, 2}).Floats("b", {1, 0}, {}).Output("y");
  two.Node("Concat", {"x", "b", "x"}, {"y"}).Int("axis", 1);
  EXPECT_EQ(Evaluated(two).shape, (Shape{1, 4}));
  ModelMaker other;
  other.Input("x", {1, 2}).Floats("b", {3, 0}, {}).Output("y");
  other.Node("Concat", {"x", "b"}, {"y"}).Int("axis", 1);
  EXPECT_THAT(ImportError(other), HasSubstr("cannot concatenate"));
}

TEST(EmptyTensor, ReshapedAndMoved) {
  ModelMaker zero(14);
  zero.Input("x", {0, 3, 4}).Ints("shape", {3, 4, 0}).Output("y");
  zero.Node("Reshape", {"x", "shape"}, {"y"}).Int("allowzero", 1);
  EXPECT_EQ(EmptyShape(zero), (Shape{3, 4, 0}));
  ModelMaker copied;
  copied.Input("x", {0, 3}).Ints("shape", {0, 1, 3}).Output("y");
  copied.Node("Reshape", {"x", "shape"}, {"z"});
  copied.Node("Transpose", {"z"}, {"y"}).Ints("perm", {2, 0, 1});
  EXPECT_EQ(EmptyShape(copied), (Shape{3, 0, 1}));
  ModelMaker open;  // the extent for -1 is ambiguous
  open.Input("x", {0, 3}).Ints("shape", {0, -1}).Output("y");
  open.Node("Reshape", {"x", "shape"}, {"y"});
  EXPECT_THAT(ImportError(open), HasSubstr("cannot reshape [0,3] to [0,-1]"));
  ModelMaker huge(14);
  huge.Input("x", {0, 3}).Ints("shape", {0, int64_t{1} << 62, 4}).Output("y");
  huge.Node("Reshape", {"x", "shape"}, {"z"}).Int("allowzero", 1);
  huge.Node("Flatten", {"z"}, {"y"}).Int("axis", 1);
  EXPECT_THAT(ImportError(huge), HasSubstr("is too large"));
  ModelMaker tiled;
  tiled.Input("x", {2, 3}).Ints("repeats", {1, 0}).Output("y");
  tiled.Node("Tile", {"x", "repeats"}, {"y"});
  EXPECT_EQ(EmptyShape(tiled), (Shape{2, 0}));
  ModelMaker filled;
  filled.Input("x", {1}).Ints("shape", {0, 3}).Output("y");
  filled.Node("ConstantOfShape", {"shape"}, {"y"});
  EXPECT_EQ(EmptyShape(filled), (Shape{0, 3}));
  ModelMaker scalar;  // an empty *shape* is that of a scalar
  scalar.Input("x", {1}).Ints("shape", {}).Output("y");
  scalar.Node("Reshape", {"x", "shape"}, {"y"});
  EXPECT_EQ(Evaluated(scalar).data.size(), 1u);
}

TEST(EmptyTensor, SumsAndProductsOfNothing) {
  ModelMaker sum;
  sum.Input("x", {2, 0, 3}).Ints("axis", {1}).Output("y");
  sum.Node("ReduceSum", {"x", "axis"}, {"y"}).Int("keepdims", 0);
  EXPECT_EQ(Evaluated(sum).shape, (Shape{2, 3}));
  EXPECT_EQ(Evaluated(sum).data, std::vector<double>(6, 0));
  ModelMaker prod;
  prod.Input("x", {2, 0}).Output("y");
  prod.Node("ReduceProd", {"x"}, {"y"}).Ints("axes", {1});
  EXPECT_EQ(Evaluated(prod).data, std::vector<double>(2, 1));
  for (bool batch : {false, true}) {
    ModelMaker product;
    product.Input("a", batch ? Shape{3, 2, 0} : Shape{2, 0}).Input("b", batch ? Shape{3, 0, 4} : Shape{0, 4});
    product.Output("y").Node("MatMul", {"a", "b"}, {"y"});
    EXPECT_EQ(Evaluated(product).shape, batch ? (Shape{3, 2, 4}) : (Shape{2, 4}));
    EXPECT_EQ(Evaluated(product).data, std::vector<double>(batch ? 24 : 8, 0));
  }
  ModelMaker padded;
  padded.Input("x", {0, 2}).Ints("pads", {1, 0, 1, 1}).Floats("v", {}, {7}).Output("y");
  padded.Node("Pad", {"x", "pads", "v"}, {"y"});
  EXPECT_EQ(Evaluated(padded).data, std::vector<double>(6, 7));
}

TEST(EmptyTensor, ResultsOfTheSameShape) {
  for (const char* op : {"Softmax", "LogSoftmax", "Hardmax", "Trilu"}) {
    ModelMaker m(14);
    m.Input("x", {0, 3}).Output("y").Node(op, {"x"}, {"y"});
    EXPECT_EQ(EmptyShape(m), (Shape{0, 3})) << op;
  }
  ModelMaker resized;  // a batch of no images
  resized.Input("x", {0, 1, 2, 2}).Floats("scales", {4}, {1, 1, 2, 3}).Output("y");
  resized.Node("Resize", {"x", "", "scales"}, {"y"});
  EXPECT_EQ(EmptyShape(resized), (Shape{0, 1, 4, 6}));
  ModelMaker mirrored;  // the padded dimension is not the empty one
  mirrored.Input("x", {0, 3}).Ints("pads", {0, 1, 0, 1}).Output("y");
  mirrored.Node("Pad", {"x", "pads"}, {"y"}).String("mode", "reflect");
  EXPECT_EQ(EmptyShape(mirrored), (Shape{0, 5}));
}

TEST(EmptyTensor, ConvolutionWithoutInputChannels) {
  ModelMaker m;
  m.Input("x", {1, 0, 3, 3}).Floats("w", {2, 0, 2, 2}, {}).Floats("b", {2}, {5, 6}).Output("y");
  m.Node("Conv", {"x", "w", "b"}, {"y"});
  EXPECT_EQ(Evaluated(m).data, (std::vector<double>{5, 5, 5, 5, 6, 6, 6, 6}));
}

TEST(EmptyTensor, WhatNothingCannotGive) {
  auto error = [](const Shape& shape, const char* op, auto attributes) {
    ModelMaker m;
    m.Input("x", shape).Output("y");
    attributes(m.Node(op, {"x"}, {"y"}));
    return ImportError(m);
  };
  constexpr const char* kReads = "reads a tensor without elements";
  EXPECT_THAT(error({2, 0}, "ReduceMax", [](NodeMaker n) { n.Ints("axes", {1}); }), HasSubstr(kReads));
  EXPECT_THAT(error({2, 0}, "ArgMax", [](NodeMaker n) { n.Int("axis", 1); }), HasSubstr(kReads));
  EXPECT_THAT(error({1, 2, 0, 3}, "GlobalAveragePool", [](NodeMaker) {}), HasSubstr(kReads));
  EXPECT_THAT(error({1, 2, 0, 3}, "MaxPool",
                    [](NodeMaker n) {
                      n.Ints("kernel_shape", {2, 2});
                    }),
              HasSubstr("does not fit"));
  EXPECT_THAT(error({1, 2, 0, 3}, "MaxPool",
                    [](NodeMaker n) {
                      n.Ints("kernel_shape", {2, 2});
                      n.Ints("pads", {1, 1, 1, 1});
                    }),
              HasSubstr(kReads));
  ModelMaker mirrored;
  mirrored.Input("x", {0, 2}).Ints("pads", {1, 0, 1, 0}).Output("y");
  mirrored.Node("Pad", {"x", "pads"}, {"y"}).String("mode", "edge");
  EXPECT_THAT(ImportError(mirrored), HasSubstr(kReads));
  ModelMaker picked;
  picked.Input("x", {0, 2}).Input("i", {1}, 7).Output("y");
  picked.Node("Gather", {"x", "i"}, {"y"});
  EXPECT_THAT(ImportError(picked), HasSubstr(kReads));
  ModelMaker larger;
  larger.Input("x", {1, 1, 0, 2}).Ints("sizes", {1, 1, 4, 4}).Output("y");
  larger.Node("Resize", {"x", "", "", "sizes"}, {"y"});
  EXPECT_THAT(ImportError(larger), HasSubstr("of dimension 2 of [1,1,0,2]"));
}

}  // namespace
}  // namespace autotune::graph
