// 16-bit floats in models: result types, the places where numbers are rounded, and unsupported types.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontend/onnx/import.h"
#include "tests/frontend/element_types.h"
#include "tests/frontend/model_maker.h"
#include "tests/frontend/outputs.h"

namespace autotune::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const DType kHalf = DType::Float(16), kSingle = DType::Float(32), kBFloat = DType::BFloat16();

Graph Imported(const ModelMaker& m) {
  Result<ImportedModel> imported = Import(m);
  EXPECT_TRUE(imported.ok()) << imported.error().Text();
  return imported.ok() ? imported->module.main() : Graph();
}

std::vector<DType> OutputTypes(const ModelMaker& m) {
  std::vector<DType> types;
  const Graph g = Imported(m);
  for (ValueId v : g.outputs) types.push_back(g.Spec(v).dtype);
  return types;
}

TEST(Halves, ResultsHaveTheOperandsType) {
  for (auto [type, dtype] : {std::pair{kFloat16, kHalf}, {kBFloat16, kBFloat}}) {
    ModelMaker m(19);
    m.Input("x", {2, 3}, type).Input("i", {1}, 7).Input("c", {2, 3}, 9).Input("q", {2, 3}, kUInt8).Input("s", {}, type);
    for (const char* y : {"sum", "picked", "chosen", "wide", "same", "normal", "mean"}) m.Output(y);
    m.Node("Add", {"x", "s"}, {"sum"});
    m.Node("Gather", {"x", "i"}, {"picked"});
    m.Node("Where", {"c", "x", "sum"}, {"chosen"});
    m.Node("DequantizeLinear", {"q", "s"}, {"wide"});
    m.Node("Identity", {"x"}, {"same"});
    m.Floats("scale", {3}, {1, 2, 3});
    m.Node("CastLike", {"scale", "x"}, {"narrow"});
    m.Node("LayerNormalization", {"x", "narrow"}, {"normal", "mean"});
    EXPECT_THAT(OutputTypes(m), ElementsAre(dtype, dtype, dtype, dtype, dtype, dtype, kSingle));
  }
}

TEST(Halves, ResultsOfCastsHaveTheTypeAskedFor) {
  ModelMaker m(17);
  m.Input("x", {3}, kFloat16).Input("y", {3}).Output("a").Output("b").Output("c").Output("d");
  m.Node("Cast", {"x"}, {"a"}).Int("to", kFloat);
  m.Node("Cast", {"y"}, {"b"}).Int("to", kBFloat16);
  m.Node("CastLike", {"x", "b"}, {"c"});
  m.Node("CastLike", {"b", "y"}, {"d"});
  EXPECT_THAT(OutputTypes(m), ElementsAre(kSingle, kBFloat, kBFloat, kSingle));
}

// f16 cannot represent 2049. The sum 2048 + 1 + 1 is 2048 if each step rounds, and 2050 if only the result does.
TEST(Halves, NumbersAreRoundedWhereTheyAreStored) {
  ModelMaker m(17);
  m.Input("x", {1}, kFloat16).Input("one", {1}, kFloat16).Output("y");
  m.Node("Add", {"x", "one"}, {"once"});
  m.Node("Add", {"once", "one"}, {"y"});
  EXPECT_THAT(Output(m, {{2048}, {1}}), ElementsAre(2050));
  ModelMaker overflow(17);
  overflow.Input("x", {2}, kFloat16).Output("y").Node("Mul", {"x", "x"}, {"y"});
  EXPECT_THAT(Output(overflow, {{255, 256}}), ElementsAre(65024, INFINITY));
}

// bf16 cannot represent 257. A product of bf16 reads the rounded sum 256. f16 cannot represent 2049, but a product of
// it reads the sum before it was rounded.
TEST(Halves, ProductsOfBf16ReadRoundedNumbers) {
  const auto result = [](int type, float big, const char* product) {
    ModelMaker m(22);
    m.Input("x", {1, 1, 1}, type).Input("one", {1, 1, 1}, type).Output("y");
    m.Node("Add", {"x", "one"}, {"sum"});
    if (std::string(product) == "Gemm") {
      m.Ints("matrix", {1, 1});
      m.Node("Reshape", {"sum", "matrix"}, {"a"});
      m.Node("Reshape", {"one", "matrix"}, {"b"});
    } else {
      m.Node("Identity", {"sum"}, {"a"});
      m.Node("Identity", {"one"}, {"b"});
    }
    m.Node(product, {"a", "b"}, {"p"});
    m.Node("Sub", {"p", "one"}, {"less"});
    m.Node("Cast", {"less"}, {"y"}).Int("to", kFloat);
    return Output(m, {{big}, {1}});
  };
  for (const char* product : {"MatMul", "Conv", "Gemm"}) {
    EXPECT_THAT(result(kBFloat16, 256, product), ElementsAre(255)) << product;
    EXPECT_THAT(result(kFloat16, 2048, product), ElementsAre(2048)) << product;
  }
}

// A cast that is in the model rounds, whatever node follows it.
TEST(Halves, CastsRound) {
  ModelMaker m(17);
  m.Input("x", {2}).Output("y");
  m.Node("Cast", {"x"}, {"narrow"}).Int("to", kBFloat16);
  m.Node("Cast", {"narrow"}, {"y"}).Int("to", kFloat);
  EXPECT_THAT(Output(m, {{257, 259}}), ElementsAre(256, 260));
}

TEST(Halves, ConstantsOfThem) {
  ModelMaker m(17);
  m.Input("x", {2}, kFloat16).Output("y");
  m.Floats("third", {2}, {1.0f / 3, 1e6f});
  m.Node("Cast", {"third"}, {"t"}).Int("to", kFloat16);
  m.Node("Mul", {"x", "t"}, {"y"});
  EXPECT_THAT(Output(m, {{1, 1}}), ElementsAre(0.333251953125, INFINITY));
}

TEST(Halves, BitsOfThem) {
  ModelMaker m(26);
  m.Input("x", {3}, kFloat16).Output("y").Node("BitCast", {"x"}, {"y"}).Int("to", 4);
  EXPECT_THAT(OutputTypes(m), ElementsAre(DType::UInt(16)));
  EXPECT_THAT(Output(m, {{1, -2, 65504}}), ElementsAre(0x3c00, 0xc000, 0x7bff));
}

TEST(Halves, ANoteSaysHowTheyAreComputed) {
  auto notes = [](int type) {
    ModelMaker m(17);
    m.Input("x", {2}, type).Output("y").Node("Relu", {"x"}, {"y"});
    return Import(m)->notes;
  };
  EXPECT_THAT(notes(kFloat16),
              ElementsAre("floats of 16 bits are stored as such, and sums of them are computed in 32 bits"));
  EXPECT_THAT(notes(kFloat), IsEmpty());
}

TEST(Halves, TypesOf8BitsStayRefused) {
  const std::pair<int, const char*> types[] = {
      {17, "float8e4m3fn"}, {18, "float8e4m3fnuz"}, {19, "float8e5m2"}, {20, "float8e5m2fnuz"}, {22, "int4"}};
  for (auto [type, name] : types) {
    ModelMaker input(23), cast(23);
    input.Input("x", {2}, type).Output("y").Node("Identity", {"x"}, {"y"});
    EXPECT_THAT(ImportError(input), HasSubstr("input 'x' is " + std::string(name) + ";"));
    cast.Input("x", {2}, kFloat16).Output("y").Node("Cast", {"x"}, {"y"}).Int("to", type);
    EXPECT_THAT(ImportError(cast), HasSubstr("element type " + std::string(name) + " is not supported"));
  }
}

// A weight of an 8-bit float type is an error of the node that reads it. Unread weights are ignored.
TEST(Halves, WeightsOf8BitsAreRefusedWhereTheyAreRead) {
  auto model = [](const std::vector<std::string>& factor) {
    ModelMaker m(23);
    m.Input("x", {2}).Input("q", {2}, kInt8).Bytes8("w", {2}, {1, 2}, kFloat8).Floats("scale", {}, {2});
    m.Output("y").Output("z");
    m.Node("DequantizeLinear", factor, {"y"}).Int("axis", 0);
    m.Node("Relu", {"x"}, {"z"});
    return m;
  };
  const std::string why =
      "DequantizeLinear (node #0): tensor 'w' has element type float8e4m3fn, which is not supported";
  EXPECT_THAT(ImportError(model({"w", "scale"})), HasSubstr(why));
  EXPECT_EQ(ImportError(model({"q", "scale"})), "no error");
  ModelMaker two = model({"w", "scale"});
  two.Output("u").Node("NoOperator", {"x"}, {"u"});
  EXPECT_THAT(ImportError(two), HasSubstr(why + "; NoOperator (node #2) is not supported"));
  ModelMaker output(23);
  output.Bytes8("w", {2}, {1, 2}, kFloat8).Output("w");
  EXPECT_THAT(ImportError(output), HasSubstr("float8e4m3fn, which is not supported (as an output of m.onnx)"));
}

}  // namespace
}  // namespace autotune::graph
