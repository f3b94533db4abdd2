#include "frontend/onnx/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "frontend/onnx/tensor_pb.h"
#include "support/rng.h"
#include "tests/frontend/element_types.h"
#include "tests/frontend/model_maker.h"
#include "tests/graph/reference.h"

namespace autotune::graph {
namespace {

using testing::HasSubstr;

TEST(Import, ConvWithBias) {
  ModelMaker m;
  m.Input("x", {1, 1, 3, 3}).Floats("w", {1, 1, 3, 3}, {0, 0, 0, 0, 2, 0, 0, 0, 0}).Floats("b", {1}, {10}).Output("y");
  m.Node("Conv", {"x", "w", "b"}, {"y"}, "conv").Ints("pads", {1, 1, 1, 1});
  Result<ImportedModel> imported = Import(m);
  ASSERT_TRUE(imported.ok()) << imported.error().Text();
  const Graph& g = imported->module.main();
  EXPECT_EQ(g.output_names, std::vector<std::string>{"y"});
  EXPECT_EQ(g.values[g.inputs[0]].name, "x");
  EXPECT_EQ(g.nodes[0].name, "conv");
  auto out = reference::Evaluate(g, {{{1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}}});
  EXPECT_EQ(out[0].data, (std::vector<double>{12, 14, 16, 18, 20, 22, 24, 26, 28}));
  EXPECT_TRUE(imported->notes.empty());
}

// The importer computes in doubles, which cannot represent 2^64 - 1.
TEST(Import, AKernelCastsNegativeConstantsTo64BitsWithoutSign) {
  for (int64_t number : {-1, 1}) {
    ModelMaker m;
    m.Ints("c", {number, 2}).Output("y");
    constexpr int kUInt64 = 13;
    m.Node("Cast", {"c"}, {"y"}).Int("to", kUInt64);
    Result<ImportedModel> imported = Import(m);
    ASSERT_TRUE(imported.ok()) << imported.error().Text();
    const Graph& g = imported->module.main();
    bool casts = std::any_of(g.nodes.begin(), g.nodes.end(), [](auto& n) { return n.op == graph::Op::kCast; });
    EXPECT_EQ(casts, number < 0);
    EXPECT_EQ(g.Spec(g.outputs[0]).dtype, DType::UInt(64));
  }
}

TEST(Import, OpenLeadingDimensionBecomesOne) {
  ModelMaker m;
  m.Input("x", {-1, 4}).Output("y");
  m.Node("Relu", {"x"}, {"y"});
  Result<ImportedModel> imported = Import(m);
  ASSERT_TRUE(imported.ok()) << imported.error().Text();
  EXPECT_EQ(imported->module.main().Spec(imported->module.main().inputs[0]).shape, (Shape{1, 4}));
  ASSERT_EQ(imported->notes.size(), 1u);
  EXPECT_THAT(imported->notes[0], HasSubstr("'x'"));
  ImportOptions options;
  options.shapes["x"] = {8, 4};
  imported = Import(m, options);
  EXPECT_EQ(imported->module.main().Spec(imported->module.main().inputs[0]).shape, (Shape{8, 4}));
  EXPECT_TRUE(imported->notes.empty());
}

TEST(Import, OtherOpenDimensionsNeedTheFlagThatTheErrorPrints) {
  ModelMaker m;
  m.Input("data", {-1, 3, -1, -1}).Output("y");
  m.Node("Relu", {"data"}, {"y"});
  EXPECT_THAT(ImportError(m), HasSubstr("--shape data:1,3,224,224"));
  auto option = ParseShapeOption("data:1,3,224,224");
  ASSERT_TRUE(option.ok());
  ImportOptions options;
  options.shapes.insert(*option);
  EXPECT_TRUE(Import(m, options).ok());
  options.shapes["typo"] = {1};
  EXPECT_THAT(ImportError(m, options), HasSubstr("'typo'"));
  options.shapes = {{"data", {1, 3}}};
  EXPECT_THAT(ImportError(m, options), HasSubstr("2 dimensions"));
}

TEST(Import, ShapeOption) {
  EXPECT_EQ(ParseShapeOption("a:b:2,3")->first, "a:b");
  EXPECT_EQ(ParseShapeOption("x:0,3")->second, (Shape{0, 3}));
  for (const char* bad : {"", "x", ":1", "x:", "x:1,", "x:1,a", "x:-1", "x:1,,2", "x:99999999999"}) {
    EXPECT_FALSE(ParseShapeOption(bad).ok()) << bad;
  }
}

TEST(Import, AllUnsupportedNodesAtOnce) {
  ModelMaker m;
  m.Input("x", {1, 2, 4, 4}).Floats("s", {2}, {1, 1}).Output("y");
  m.Node("Unheard", {"x"}, {"a"}, "first");
  m.Node("Relu", {"a"}, {"b"});
  m.Node("SequenceConstruct", {"b"}, {"c"});
  m.Node("NGramRepeatBlock", {"x"}, {"d"}, "third").Domain("com.microsoft");
  m.Node("BatchNormalization", {"x", "s", "s", "s", "s"}, {"e", "mean"}, "norm");
  m.Node("Relu", {"mean"}, {"y"});
  std::string error = ImportError(m);
  EXPECT_THAT(error, HasSubstr("Unheard (node 'first')"));
  EXPECT_THAT(error, HasSubstr("SequenceConstruct (node #2)"));
  EXPECT_THAT(error, HasSubstr("com.microsoft.NGramRepeatBlock (node 'third')"));
  EXPECT_THAT(error, HasSubstr("BatchNormalization (node 'norm'): output 'mean' is used"));
  EXPECT_EQ(error.find("Relu"), std::string::npos) << error;
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

TEST(Import, UnusedOutputsAreNoObstacle) {
  ModelMaker m;
  m.Input("x", {1, 2, 4, 4}).Floats("s", {2}, {1, 1}).Output("y");
  m.Node("BatchNormalization", {"x", "s", "s", "s", "s"}, {"y", "mean", "variance"});
  EXPECT_TRUE(Import(m).ok());
}

TEST(Import, OperatorSets) {
  for (int opset : {6, 7, 17, 18, 28}) {
    ModelMaker m(opset);
    m.Input("x", {2}).Output("y");
    m.Node("Relu", {"x"}, {"y"});
    EXPECT_TRUE(Import(m).ok()) << opset;
  }
  ModelMaker newer(29);
  newer.Input("x", {2}).Output("y");
  newer.Node("Relu", {"x"}, {"y"});
  EXPECT_THAT(ImportError(newer), HasSubstr("uses ONNX operator set 29; supported are 1 to 28"));
  ModelMaker older(6);  // an operator set without Sign
  older.Input("x", {2}).Output("y");
  older.Node("Sign", {"x"}, {"y"}, "sign");
  EXPECT_THAT(ImportError(older), HasSubstr("Sign (node 'sign'): is supported in operator sets 9 to 28, not in 6"));
}

TEST(Import, RemaindersOfFloats) {
  auto model = [](int fmod, int onnx_type, int64_t n) {
    ModelMaker m;
    m.Input("x", {n}, onnx_type).Input("divisor", {n}, onnx_type).Output("y");
    m.Node("Mod", {"x", "divisor"}, {"y"}).Int("fmod", fmod);
    return m;
  };
  EXPECT_THAT(ImportError(model(0, 1, 4)), HasSubstr("is for integers unless fmod is set, not for f32[4]"));
  EXPECT_THAT(ImportError(model(1, 11, 4)), HasSubstr("is supported on f32 and integers, not on f64[4]"));
  // Mod is exact for all pairs of special values and of numbers with random bits.
  constexpr double kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  std::vector<double> values = {0, 1, -1, 3, -0.75, 0x1p-149, -0x1.8p-148, 0x1p-126, 0x1.fffffep127, kInf, -kInf, kNan};
  Rng rng(1);
  for (int i = 0; i < 60; ++i) {
    auto mantissa = static_cast<double>(rng.Below(1 << 24)) * (rng.Below(2) ? 1 : -1);
    values.push_back(std::ldexp(mantissa, static_cast<int>(rng.Below(253)) - 149));
  }
  reference::Tensor x, divisor;
  for (double a : values) {
    for (double b : values) x.data.push_back(a), divisor.data.push_back(b);
  }
  auto n = static_cast<int64_t>(x.data.size());
  x.shape = divisor.shape = {n};
  Result<ImportedModel> imported = Import(model(1, 1, n));
  ASSERT_TRUE(imported.ok()) << imported.error().Text();
  auto out = reference::Evaluate(imported->module.main(), {x, divisor});
  for (size_t i = 0; i < x.data.size(); ++i) {
    double want = std::fmod(x.data[i], divisor.data[i]), got = out[0].data[i];
    EXPECT_TRUE(got == want || (std::isnan(got) && std::isnan(want)))
        << x.data[i] << " mod " << divisor.data[i] << " is " << want << ", not " << got;
  }
}

// Before operator set 7, operators broadcast only as their attributes `broadcast` and `axis` say.
TEST(Import, BroadcastByAttributes) {
  auto evaluate = [](const std::vector<int64_t>& other, int64_t axis, bool broadcast) -> std::vector<double> {
    ModelMaker m(6);
    m.Input("x", {2, 3, 2}).Input("b", other).Output("y");
    NodeMaker node = m.Node("Add", {"x", "b"}, {"y"}, "sum");
    if (broadcast) node.Int("broadcast", 1);
    if (axis >= 0) node.Int("axis", axis);
    Result<ImportedModel> imported = Import(m);
    if (!imported.ok()) return {};
    int64_t count = 1;
    for (int64_t extent : other) count *= extent;
    std::vector<double> b;
    for (int64_t i = 0; i < count; ++i) b.push_back(static_cast<double>(10 * (i + 1)));
    return reference::Evaluate(imported->module.main(), {{{2, 3, 2}, std::vector<double>(12, 1)}, {other, b}})[0].data;
  };
  EXPECT_EQ(evaluate({2}, -1, true), (std::vector<double>{11, 21, 11, 21, 11, 21, 11, 21, 11, 21, 11, 21}));
  EXPECT_EQ(evaluate({3}, 1, true), (std::vector<double>{11, 11, 21, 21, 31, 31, 11, 11, 21, 21, 31, 31}));
  EXPECT_EQ(evaluate({2, 1}, 0, true), (std::vector<double>{11, 11, 11, 11, 11, 11, 21, 21, 21, 21, 21, 21}));
  EXPECT_EQ(evaluate({}, -1, true), std::vector<double>(12, 11));
  EXPECT_EQ(evaluate({2, 3, 2}, -1, false).size(), 12u);
  EXPECT_TRUE(evaluate({2}, -1, false).empty());  // without the attribute there is no broadcasting
  EXPECT_TRUE(evaluate({3}, 0, true).empty());
  EXPECT_TRUE(evaluate({3}, 3, true).empty());
}

TEST(Import, ElementTypes) {
  for (int type : {kFloat, kDouble, kFloat16, kBFloat16}) {
    ModelMaker m;
    m.Input("x", {2}, type).Output("y");
    m.Node("Relu", {"x"}, {"y"});
    EXPECT_EQ(ImportError(m), "no error");
  }
  for (auto [type, text] :
       {std::pair{kString, "input 'x' is string"}, std::pair{kFloat8, "input 'x' is float8e4m3fn"}}) {
    ModelMaker m;
    m.Input("x", {2}, type).Output("y");
    m.Node("Relu", {"x"}, {"y"});
    EXPECT_THAT(ImportError(m), HasSubstr(text));
  }
}

TEST(Import, MixedElementTypesAreRefused) {
  ModelMaker m;
  m.Input("x", {2}).Input("i", {2}, 7).Output("y");
  m.Node("Add", {"x", "i"}, {"y"});
  EXPECT_THAT(ImportError(m), HasSubstr("element types differ"));
  ModelMaker exp;
  exp.Input("i", {2}, 7).Output("y");
  exp.Node("Exp", {"i"}, {"y"});
  EXPECT_THAT(ImportError(exp), HasSubstr("is for floats"));
}

// Evaluates a model by the reference. If it cannot be imported, stores the message in `error`.
std::vector<double> Evaluated(const ModelMaker& m, const std::vector<reference::Tensor>& in,
                              std::string* error = nullptr) {
  Result<ImportedModel> imported = Import(m);
  if (!imported.ok()) {
    EXPECT_TRUE(error) << imported.error().Text();
    if (error) *error = imported.error().Text();
    return {};
  }
  return reference::Evaluate(imported->module.main(), in)[0].data;
}

TEST(Import, HardSigmoid) {
  ModelMaker m;
  m.Input("x", {4}).Output("y");
  m.Node("HardSigmoid", {"x"}, {"y"}).Float("alpha", 0.5f);
  EXPECT_EQ(Evaluated(m, {{{4}, {-4, 0, 0.5, 4}}}), (std::vector<double>{0, 0.5, 0.75, 1}));
}

TEST(Import, PowersThatAreProducts) {
  ModelMaker m;
  m.Input("x", {2}).Floats("two", {}, {2}).Output("y");
  m.Node("Pow", {"x", "two"}, {"y"});
  Result<ImportedModel> imported = Import(m);
  ASSERT_TRUE(imported.ok());
  EXPECT_EQ(imported->module.main().nodes[0].op, Op::kMul);
  EXPECT_EQ(Evaluated(m, {{{2}, {-3, 4}}}), (std::vector<double>{9, 16}));
  ModelMaker other;
  other.Input("x", {2}).Floats("power", {}, {2.5}).Output("y");
  other.Node("Pow", {"x", "power"}, {"y"});
  EXPECT_EQ(Evaluated(other, {{{2}, {1, 4}}}), (std::vector<double>{1, 32}));
}

TEST(Import, SlicesClampAndWalkBackwards) {
  ModelMaker m;
  m.Input("x", {5}).Ints("start", {-1}).Ints("end", {-100}).Ints("axis", {0}).Ints("step", {-2}).Output("y");
  m.Node("Slice", {"x", "start", "end", "axis", "step"}, {"y"});
  EXPECT_EQ(Evaluated(m, {{{5}, {0, 1, 2, 3, 4}}}), (std::vector<double>{4, 2, 0}));
}

TEST(Import, GatherChecksConstantIndices) {
  ModelMaker m;
  m.Input("x", {3}).Ints("i", {-1, 0}).Output("y");
  m.Node("Gather", {"x", "i"}, {"y"});
  EXPECT_EQ(Evaluated(m, {{{3}, {5, 6, 7}}}), (std::vector<double>{7, 5}));
  ModelMaker bad;
  bad.Input("x", {3}).Ints("i", {3}).Output("y");
  bad.Node("Gather", {"x", "i"}, {"y"});
  EXPECT_THAT(ImportError(bad), HasSubstr("index 3 is outside [3]"));
}

TEST(Import, NegativePadsCut) {
  ModelMaker m;
  m.Input("x", {4}).Ints("pads", {-1, 2}).Output("y");
  m.Node("Pad", {"x", "pads"}, {"y"});
  EXPECT_EQ(Evaluated(m, {{{4}, {1, 2, 3, 4}}}), (std::vector<double>{2, 3, 4, 0, 0}));
}

TEST(Import, FixedInputsAreConstants) {
  ModelMaker m;
  m.Input("x", {2, 3}).Input("shape", {1}, 7).Output("y");
  m.Node("Reshape", {"x", "shape"}, {"y"});
  EXPECT_THAT(ImportError(m), HasSubstr("computed at run time"));
  ImportOptions options;
  options.fixed["shape"] = TensorValue::Of<int64_t>({1}, {6});
  Result<ImportedModel> imported = Import(m, options);
  ASSERT_TRUE(imported.ok()) << imported.error().Text();
  EXPECT_EQ(imported->module.main().inputs.size(), 1u);
  EXPECT_EQ(imported->module.main().Spec(imported->module.main().outputs[0]).shape, (Shape{6}));
  options.fixed["shape"] = TensorValue::Of<int64_t>({2}, {2, 3});
  EXPECT_THAT(ImportError(m, options), HasSubstr("cannot be fixed to i64[2]"));
}

TEST(Import, ShapeArithmeticIsConsumed) {
  ModelMaker m;
  m.Input("x", {2, 3, 4}).Ints("zero", {0}).Ints("minus", {-1}).Ints("two", {2}).Output("y");
  m.Node("Shape", {"x"}, {"s"});
  m.Node("Gather", {"s", "zero"}, {"n"});
  m.Node("Mul", {"n", "two"}, {"nn"});
  m.Node("Concat", {"nn", "minus"}, {"shape"}).Int("axis", 0);
  m.Node("Reshape", {"x", "shape"}, {"y"});
  Result<ImportedModel> imported = Import(m);
  ASSERT_TRUE(imported.ok()) << imported.error().Text();
  EXPECT_EQ(imported->module.main().Spec(imported->module.main().outputs[0]).shape, (Shape{4, 6}));
  EXPECT_EQ(imported->module.main().nodes.size(), 1u);
  EXPECT_TRUE(imported->module.main().constants.empty());
}

TEST(Import, ShapeComputedAtRunTimeIsRefused) {
  ModelMaker m;
  m.Input("x", {2, 3}).Input("shape", {1}).Output("y");
  m.Node("Reshape", {"x", "shape"}, {"y"}, "r");
  EXPECT_THAT(ImportError(m), HasSubstr("Reshape (node 'r')"));
}

TEST(Import, ExtraOutputs) {
  ModelMaker m;
  m.Input("x", {1, 4}).Output("y");
  m.Node("Relu", {"x"}, {"logits"});
  m.Node("Softmax", {"logits"}, {"y"});
  ImportOptions options;
  options.extra_outputs = {"logits"};
  Result<ImportedModel> imported = Import(m, options);
  ASSERT_TRUE(imported.ok());
  EXPECT_EQ(imported->module.main().output_names, (std::vector<std::string>{"y", "logits"}));
  EXPECT_EQ(imported->module.main().Producer(imported->module.main().outputs[1])->op, Op::kRelu);
  options.extra_outputs = {"nothing"};
  EXPECT_THAT(ImportError(m, options), HasSubstr("'nothing'"));
}

TEST(Import, DamagedFiles) {
  ModelMaker m;
  m.Input("x", {1, 4}).Floats("b", {4}, {1, 2, 3, 4}).Output("y");
  m.Node("Add", {"x", "b"}, {"y"});
  std::string bytes = m.Bytes();
  ASSERT_TRUE(ImportOnnxBytes(bytes, "m.onnx").ok());
  for (size_t n = 0; n < bytes.size(); ++n) {
    Result<ImportedModel> cut = ImportOnnxBytes(bytes.substr(0, n), "m.onnx");
    ASSERT_FALSE(cut.ok()) << n;
    EXPECT_THAT(cut.error().Text(), HasSubstr("m.onnx"));
  }
  for (const char* garbage : {"hello", "<html></html>", "\x08\x01"}) EXPECT_FALSE(ImportOnnxBytes(garbage, "g").ok());
  EXPECT_THAT(ImportOnnx("/nonexistent/m.onnx").error().Text(), HasSubstr("cannot open /nonexistent/m.onnx"));
  EXPECT_THAT(ImportOnnx("/").error().Text(), HasSubstr("directory"));
}

// Randomly damaged bytes give a graph or an error of one line, never a crash or a failed CHECK.
TEST(Import, RandomDamage) {
  ModelMaker m(12);
  m.Input("x", {1, 4, 6, 6})
      .Floats("w", {4, 2, 3, 3}, std::vector<float>(72, 1))
      .Floats("b", {4}, {1, 2, 3, 4})
      .Output("y");
  m.Ints("shape", {0, -1}).Ints("fill", {4, 4});
  m.Node("Conv", {"x", "w", "b"}, {"c"}).Ints("pads", {1, 1, 1, 1}).Ints("strides", {1, 1}).Int("group", 2);
  m.Node("MaxPool", {"c"}, {"p"}).Ints("kernel_shape", {2, 2}).Ints("strides", {2, 2}).Int("ceil_mode", 1);
  m.Node("LRN", {"p"}, {"l"}).Int("size", 3);
  m.Node("Concat", {"l", "p"}, {"cc"}).Int("axis", 1);
  m.Node("Transpose", {"cc"}, {"t"}).Ints("perm", {0, 2, 3, 1});
  m.Node("Unsqueeze", {"t"}, {"u"}).Ints("axes", {0});
  m.Node("Squeeze", {"u"}, {"q"}).Ints("axes", {0});
  m.Node("Reshape", {"q", "shape"}, {"r"});
  m.Node("ConstantOfShape", {"fill"}, {"f"});
  m.Node("Flatten", {"r"}, {"fl"}).Int("axis", 1);
  m.Node("Softmax", {"fl"}, {"y"}).Int("axis", 1);
  m.Output("f");
  std::string bytes = m.Bytes();
  ASSERT_TRUE(ImportOnnxBytes(bytes, "m.onnx").ok()) << ImportOnnxBytes(bytes, "m.onnx").error().Text();
  Rng rng(1);
  int imported = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string damaged = bytes;
    for (int64_t n = 1 + rng.Below(3); n > 0; --n)
      damaged[rng.Below(static_cast<int64_t>(bytes.size()))] = static_cast<char>(rng.Below(256));
    Result<ImportedModel> result = ImportOnnxBytes(damaged, "m.onnx");
    imported += result.ok();
    if (!result.ok()) {
      EXPECT_FALSE(result.error().Text().empty());
    }
  }
  EXPECT_GT(imported, 100);
  EXPECT_LT(imported, 19900);
}

TEST(Import, TensorsThatLie) {
  ModelMaker m;
  m.Input("x", {1, 4}).Floats("b", {5}, {1, 2, 3, 4}).Output("y");
  m.Node("Add", {"x", "b"}, {"y"});
  EXPECT_THAT(ImportError(m), HasSubstr("tensor 'b'"));
  ModelMaker huge;
  huge.Input("x", {1, 4}).Floats("b", {1 << 30, 1 << 30, 1 << 30}, {}).Output("y");
  EXPECT_THAT(ImportError(huge), HasSubstr("impossible shape"));
  ModelMaker outside;
  outside.Input("x", {1, 4}).Floats("b", {4}, {}).Output("y");
  outside.MarkExternal("b");
  EXPECT_THAT(ImportError(outside), HasSubstr("another file"));
}

TEST(Import, SoftmaxBefore13CountsTheInputAsAMatrix) {
  for (int opset : {12, 13}) {
    ModelMaker m(opset);
    m.Input("x", {1, 2, 2}).Output("y");
    m.Node("Softmax", {"x"}, {"y"}).Int("axis", 1);
    Result<ImportedModel> imported = Import(m);
    ASSERT_TRUE(imported.ok()) << imported.error().Text();
    auto out = reference::Evaluate(imported->module.main(), {{{1, 2, 2}, {0, 0, 0, 0}}});
    EXPECT_NEAR(out[0].data[0], opset == 12 ? 0.25 : 0.5, 1e-12);
  }
}

TEST(Import, LrnOfAnyRank) {
  ModelMaker m;
  m.Input("x", {1, 6, 5}).Output("y");
  m.Node("LRN", {"x"}, {"y"}).Int("size", 3);
  Result<ImportedModel> imported = Import(m);
  ASSERT_TRUE(imported.ok()) << imported.error().Text();
  EXPECT_EQ(imported->module.main().Spec(imported->module.main().outputs[0]).shape, (Shape{1, 6, 5}));
}

TEST(TensorPb, RoundTrip) {
  std::string path = testing::TempDir() + "tensor-" + std::to_string(getpid()) + ".pb";
  TensorValue value = TensorValue::Of<float>({2, 2}, {1, -2, 3.5, 0});
  ASSERT_TRUE(WriteTensorPb(path, {"t", value}).ok());
  Result<NamedTensor> read = ReadTensorPb(path);
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_EQ(read->name, "t");
  EXPECT_EQ(read->value.spec, value.spec);
  EXPECT_EQ(read->value.bytes.view(), value.bytes.view());
  std::ofstream(path, std::ios::binary) << "no tensor";
  EXPECT_FALSE(ReadTensorPb(path).ok());
  EXPECT_FALSE(ReadTensorPb(path + ".missing").ok());
  std::filesystem::remove(path);
  EXPECT_EQ(WriteTensorPb("/no/such/file", {"t", value}).error().Text(),
            "cannot write /no/such/file: No such file or directory");
  EXPECT_EQ(WriteTensorPb("/dev/full", {"t", value}).error().Text(), "cannot write /dev/full: No space left on device");
}

}  // namespace
}  // namespace autotune::graph
