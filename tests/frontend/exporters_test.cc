// Peculiarities of models that exporters write: initializers that are also inputs, unused names, named dimensions,
// weights in other files, chains of nodes without effect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "frontend/onnx/import.h"
#include "graph/extract.h"
#include "graph/pipeline.h"
#include "tests/frontend/outputs.h"

namespace autotune {
namespace {

using graph::Shape;
using testing::HasSubstr;

TEST(Exporters, InitializersMayBeInputsToo) {
  // File format 3 requires that every initializer is also listed as an input. The importer takes such an input for a
  // constant.
  ModelMaker m(9);
  m.FileFormat(3).Input("x", {2}).Input("w", {2}).Floats("w", {2}, {3, 4}).Output("y");
  m.Node("Mul", {"x", "w"}, {"y"});
  Result<ImportedModel> imported = Import(m);
  ASSERT_TRUE(imported.ok()) << imported.error().Text();
  EXPECT_EQ(imported->module.main().inputs.size(), 1u);
  EXPECT_EQ(Output(m, {{1, 2}}), (Numbers{3, 8}));
}

TEST(Exporters, WhatNobodyReadsIsNoObstacle) {
  ModelMaker m(17);
  m.Input("x", {2}).Input("unused", {5}).Floats("w", {2}, {3, 4}).Ints("n", {1, 2, 3}).Output("y");
  m.ImportDomain("com.microsoft").ImportDomain("ai.onnx.ml").ImportDomain("pkg.torch");
  m.Node("Relu", {"x"}, {"y"});
  EXPECT_EQ(Output(m, {{-1, 2}}), (Numbers{0, 2}));
  // A model may declare a domain that is not supported, but not use its operators.
  m.Node("TreeEnsemble", {"x"}, {"z"}).Domain("ai.onnx.ml");
  EXPECT_EQ(ImportError(m), "m.onnx cannot be imported: ai.onnx.ml.TreeEnsemble (node #1) is not supported");
}

TEST(Exporters, OnnxsOwnDomainHasTwoNamesAndMayBeAbsent) {
  ModelMaker m(17), f(17), none(17);
  m.Input("x", {2}).Output("y");
  m.Node("Relu", {"x"}, {"y"}).Domain("ai.onnx");
  EXPECT_EQ(Output(m, {{-1, 2}}), (Numbers{0, 2}));
  // A model whose nodes all call functions need not import ONNX's operator set; the functions do.
  f.Input("v", {}).Output("r");
  f.Node("Neg", {"v"}, {"r"});
  none.Input("x", {2}).Output("y").Function("pkg", "F", f).OnlyDomain("pkg");
  none.Node("F", {"x"}, {"y"}).Domain("pkg");
  EXPECT_EQ(Output(none, {{-1, 2}}), (Numbers{1, -2}));
  none.Node("Relu", {"x"}, {"z"}, "r");
  EXPECT_EQ(ImportError(none),
            "m.onnx cannot be imported: Relu (node 'r'): the model does not say which ONNX operator set it uses");
}

TEST(Exporters, NewerFormatsAreNoted) {
  for (int64_t version : {13, 14}) {
    ModelMaker m(17);
    m.FileFormat(version).Input("x", {2}).Output("y");
    m.Node("Relu", {"x"}, {"y"});
    Result<ImportedModel> imported = Import(m);
    ASSERT_TRUE(imported.ok()) << imported.error().Text();
    EXPECT_EQ(imported->notes.size(), version > 13 ? 1u : 0u);
  }
}

TEST(Exporters, ChainsThatDoNothingCostNothing) {
  ModelMaker m(17);
  m.Input("x", {2, 3}).Ints("minus", {-1}).Ints("shape", {2, 3}).Output("y");
  m.Node("Identity", {"x"}, {"a"});
  m.Node("Identity", {"a"}, {"b"});
  m.Node("Cast", {"b"}, {"c"}).Int("to", 1);
  m.Node("Reshape", {"c", "minus"}, {"d"});
  m.Node("Reshape", {"d", "shape"}, {"e"});
  m.Node("Transpose", {"e"}, {"f"}).Ints("perm", {1, 0});
  m.Node("Transpose", {"f"}, {"g"}).Ints("perm", {1, 0});
  m.Node("Dropout", {"g"}, {"h"});
  m.Node("Relu", {"h"}, {"y"});
  Result<ImportedModel> imported = Import(m);
  ASSERT_TRUE(imported.ok()) << imported.error().Text();
  auto fused = graph::Optimize(imported->module);
  ASSERT_TRUE(fused.ok());
  for (const graph::Node& node : fused->main().nodes)
    EXPECT_TRUE(node.op == graph::Op::kFused || node.op == graph::Op::kReshape) << graph::GraphText(fused->main());
  const std::vector<graph::Task> tasks = graph::ExtractTasks(fused->main());
  ASSERT_EQ(tasks.size(), 1u);
  EXPECT_EQ(tasks[0].Label(), "relu");
}

TEST(Exporters, OptionalOutputsMayBeLeftOut) {
  ModelMaker m(17);
  m.Input("x", {1, 1, 2, 2}).Output("y");
  m.Node("MaxPool", {"x"}, {"y", ""}).Ints("kernel_shape", {2, 2});
  EXPECT_EQ(Output(m, {{1, 4, 2, 3}}), Numbers{4});
}

TEST(Exporters, AnInputOrAConstantMayBeAnOutput) {
  ModelMaker m(17);
  m.Input("x", {2}).Floats("w", {2}, {3, 4}).Output("x").Output("w").Output("y");
  m.Node("Identity", {"x"}, {"y"});
  Result<ImportedModel> imported = Import(m);
  ASSERT_TRUE(imported.ok()) << imported.error().Text();
  auto out = reference::Evaluate(imported->module.main(), {{{2}, {1, 2}}});
  EXPECT_EQ(out[0].data, (Numbers{1, 2}));
  EXPECT_EQ(out[1].data, (Numbers{3, 4}));
  EXPECT_EQ(out[2].data, (Numbers{1, 2}));
}

// Decoders exported by optimum: every cache has the dimensions batch and past.
TEST(Exporters, NamedDimensionsAreStatedOnce) {
  ModelMaker m(17);
  m.NamedInput("x", {"batch", "seq", "4"}).NamedInput("past", {"batch", "past", "4"}).Output("y");
  m.Node("Concat", {"past", "x"}, {"y"}).Int("axis", 1);
  EXPECT_THAT(ImportError(m), HasSubstr("--shape x:1,128,4 or --dim seq=128"));
  ImportOptions options{.dims = {{"batch", 2}, {"seq", 3}, {"past", 5}}};
  Result<ImportedModel> imported = Import(m, options);
  ASSERT_TRUE(imported.ok()) << imported.error().Text();
  const graph::Graph& g = imported->module.main();
  EXPECT_EQ(g.Spec(g.outputs[0]).shape, (Shape{2, 8, 4}));
  EXPECT_TRUE(imported->notes.empty());
  const auto [name, none] = *ParseDimOption("past=0");  // a first prompt has no past
  options.dims[name] = none;
  EXPECT_EQ(Outputs(m, {Numbers(24, 1), {}}, options)[0].shape, (Shape{2, 3, 4}));
  options.dims["sequence"] = 3;
  EXPECT_THAT(ImportError(m, options),
              HasSubstr("--dim names 'sequence', which no input of the model has (they have: batch, seq, past)"));
  EXPECT_THAT(ImportError(m, {.dims = {{"seq", 3}}}), HasSubstr("leaves dimensions open, [batch,past,4]"));
  for (const char* bad : {"", "a", "=3", "a=", "a=-1", "a=x", "a=3x"}) EXPECT_FALSE(ParseDimOption(bad).ok()) << bad;
  for (const char* large : {"a=2147483648", "a=99999999999", "a=99999999999999999999", "a=-1"})
    EXPECT_THAT(ParseDimOption(large).error().Text(),
                HasSubstr(" is no size of a dimension; it must be 0 to 2147483647"));
  EXPECT_THAT(ParseDimOption("a=3x").error().Text(), HasSubstr("--dim a=3x is not of the form name=128"));
  EXPECT_THAT(ParseShapeOption("x:1,99999999999").error().Text(), HasSubstr("99999999999 is no size of a dimension"));
  EXPECT_EQ(*ParseDimOption("a=b=3"), std::pair(std::string("a=b"), int64_t{3}));
}

// Weights in one file, each at a multiple of the page size, as onnx.save writes them.
TEST(Exporters, ManyTensorsShareOneFile) {
  std::string folder = ::testing::TempDir() + "shared-XXXXXX";
  ASSERT_TRUE(mkdtemp(folder.data()));
  std::string data(4096 + 8, '\0');
  const float first[] = {1, 2}, second[] = {3, 4};
  std::copy_n(reinterpret_cast<const char*>(first), 8, data.begin());
  std::copy_n(reinterpret_cast<const char*>(second), 8, data.begin() + 4096);
  std::ofstream(folder + "/m.onnx.data", std::ios::binary) << data;
  for (const char* offset : {"4096", "4104"}) {
    ModelMaker m(17);
    m.Input("x", {2}).Floats("a", {2}, {0, 0}).Floats("b", {2}, {0, 0}).Output("y");
    m.MarkExternal("a", {{"location", "m.onnx.data"}, {"offset", "0"}, {"length", "8"}});
    m.MarkExternal("b", {{"location", "m.onnx.data"}, {"offset", offset}, {"length", "8"}});
    m.Node("Mul", {"x", "a"}, {"t"});
    m.Node("Add", {"t", "b"}, {"y"});
    if (std::string(offset) == "4096") {
      EXPECT_EQ(Output(m, {{1, 1}}, {.folder = folder}), (Numbers{4, 6}));
    } else {
      EXPECT_THAT(ImportError(m, {.folder = folder}), HasSubstr("has 4104 bytes, too few for 8 at offset 4104"));
    }
  }
  std::filesystem::remove_all(folder);
}

// A quantised network: every tensor goes through QuantizeLinear and DequantizeLinear.
TEST(Exporters, QuantisedNetworks) {
  ModelMaker m(13);
  m.Input("x", {1, 2}).Output("y").Floats("sx", {}, {0.5}).Floats("sw", {2}, {0.5, 0.25});
  m.Bytes8("zx", {}, {128}, /*onnx_type=*/2).Bytes8("w", {2, 2}, {2, 4, 252, 8}, /*onnx_type=*/3);
  m.Bytes8("zw", {2}, {0, 0}, 3);
  m.Node("QuantizeLinear", {"x", "sx", "zx"}, {"xq"});
  m.Node("DequantizeLinear", {"xq", "sx", "zx"}, {"xd"});
  m.Node("DequantizeLinear", {"w", "sw", "zw"}, {"wd"}).Int("axis", 1);
  m.Node("MatMul", {"xd", "wd"}, {"t"});
  m.Node("QuantizeLinear", {"t", "sx", "zx"}, {"tq"});
  m.Node("DequantizeLinear", {"tq", "sx", "zx"}, {"y"});
  // x = {1.1, 2} becomes {1, 2}; w is {{1, 1}, {-2, 2}}.
  EXPECT_EQ(Output(m, {{1.1, 2}}), (Numbers{-3, 5}));
}

}  // namespace
}  // namespace autotune
