// The models that the quantizer writes.
#include "frontend/onnx/quantizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#define ONNX_ML 1
#define ONNX_NAMESPACE onnx
#include <onnx/onnx_pb.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "frontend/onnx/value_range.h"
#include "support/rng.h"
#include "tests/frontend/outputs.h"

namespace autotune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Numbers Random(int64_t count, uint64_t seed) {
  Rng rng(seed);
  Numbers numbers(static_cast<size_t>(count));
  for (double& x : numbers) x = static_cast<double>(rng.Below(2001)) / 1000 - 1;
  return numbers;
}

std::vector<float> Floats(const Numbers& numbers) { return {numbers.begin(), numbers.end()}; }

// ||a - b|| / ||b||
double Distance(const Numbers& a, const Numbers& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < b.size(); ++i) difference += (a[i] - b[i]) * (a[i] - b[i]), size += b[i] * b[i];
  return std::sqrt(difference / size);
}

// ---- models

constexpr int64_t kChannels = 6;

// Conv, BatchNormalization, Relu, Conv, Add with the Relu's result, Relu, GlobalAveragePool, Flatten, Gemm.
ModelMaker Images(int opset = 13) {
  ModelMaker m(opset);
  m.Input("x", {1, 3, 8, 8}).Output("y");
  m.Floats("w1", {kChannels, 3, 3, 3}, Floats(Random(kChannels * 27, 1)));
  m.Floats("w2", {kChannels, kChannels, 3, 3}, Floats(Random(kChannels * kChannels * 9, 2)));
  m.Floats("w3", {4, kChannels}, Floats(Random(4 * kChannels, 3)));
  m.Floats("b3", {4}, {1, -1, 0, 2});
  m.Floats("scale", {kChannels}, {1, 2, 0.5f, 1, 1, 0}).Floats("shift", {kChannels}, {0, 1, 0, -1, 0, 2});
  m.Floats("mean", {kChannels}, {0, 0, 1, 0, 0.5f, 0}).Floats("variance", {kChannels}, {1, 4, 1, 1, 0.25f, 1});
  m.Node("Conv", {"x", "w1"}, {"c1"}, "conv1").Ints("pads", {1, 1, 1, 1});
  m.Node("BatchNormalization", {"c1", "scale", "shift", "mean", "variance"}, {"n1"});
  m.Node("Relu", {"n1"}, {"r1"});
  m.Node("Conv", {"r1", "w2"}, {"c2"}, "conv2").Ints("pads", {1, 1, 1, 1});
  m.Node("Add", {"c2", "r1"}, {"s"});
  m.Node("Relu", {"s"}, {"r2"});
  m.Node("GlobalAveragePool", {"r2"}, {"p"});
  m.Node("Flatten", {"p"}, {"f"});
  m.Node("Gemm", {"f", "w3", "b3"}, {"y"}, "classes").Int("transB", 1);
  return m;
}

// MatMul and Add, Gelu's place taken by Tanh, a product of two computed matrices, and MatMul without a bias.
ModelMaker Matrices(int opset = 13) {
  ModelMaker m(opset);
  m.Input("x", {1, 40, 64}).Output("y");
  m.Floats("w1", {64, 96}, Floats(Random(64 * 96, 1))).Floats("b1", {96}, Floats(Random(96, 2)));
  m.Floats("w2", {96, 33}, Floats(Random(96 * 33, 3)));
  m.Node("MatMul", {"x", "w1"}, {"m1"}, "first");
  m.Node("Add", {"b1", "m1"}, {"a1"});
  m.Node("Tanh", {"a1"}, {"t"});
  m.Node("MatMul", {"t", "w2"}, {"m2"}, "second");
  m.Node("Transpose", {"m2"}, {"turned"}).Ints("perm", {0, 2, 1});
  m.Node("MatMul", {"turned", "m2"}, {"y"}, "computed");
  return m;
}

// Evaluates a model on `x`; further inputs are numbers, 1 for `switched_on` and 0 for all others.
std::vector<Numbers> Evaluated(const std::string& bytes, const Numbers& x, const std::vector<std::string>& extra = {},
                               const std::string& switched_on = "") {
  ImportOptions options;
  options.extra_outputs = extra;
  const auto imported = ImportOnnxBytes(bytes, "q.onnx", options);
  if (!imported.ok()) {
    ADD_FAILURE() << imported.error().Text();
    return std::vector<Numbers>(extra.size() + 9);
  }
  const graph::Graph& g = imported->module.main();
  std::vector<Numbers> outputs;
  std::vector<reference::Tensor> inputs = {{g.Spec(g.inputs[0]).shape, x, DType::Float(32)}};
  for (size_t i = 1; i < g.inputs.size(); ++i)
    inputs.push_back({{}, {g.values[g.inputs[i]].name == switched_on ? 1. : 0.}, DType::Float(32)});
  for (const auto& tensor : reference::Evaluate(g, inputs)) outputs.push_back(tensor.data);
  return outputs;
}

// Observes the ranges of one sample by the reference.
void Calibrate(ModelQuantizer& quantizer, const Numbers& x, double percentile = 100) {
  const std::vector<std::string> names = quantizer.Activations();
  std::vector<std::string> computed;
  std::map<std::string, ValueRange> ranges;
  for (const std::string& name : names)
    if (name != "x") computed.push_back(name);
  const std::vector<Numbers> outputs = Evaluated(quantizer.FloatModel(), x, computed);
  for (size_t i = 0; i <= computed.size(); ++i) {
    RangeObserver observer(percentile);
    observer.Add(Floats(i == computed.size() ? x : outputs[outputs.size() - computed.size() + i]));
    ranges[i == computed.size() ? "x" : computed[i]] = observer.Range();
  }
  quantizer.SetRanges(ranges);
}

Result<ModelQuantizer> Read(const ModelMaker& model, QuantizedForm form) {
  return ModelQuantizer::FromBytes(model.Bytes(), "m.onnx", "", form);
}

std::string ErrorOf(const ModelMaker& model, QuantizedForm form) {
  const auto read = Read(model, form);
  return read.ok() ? "no error" : read.error().Text();
}

ModelQuantizer::MeanErrors MeanErrors(const ModelQuantizer& quantizer, const Numbers& x) {
  const auto probes = quantizer.ProbeModel();
  if (!probes.ok()) ADD_FAILURE() << probes.error().Text();
  const std::vector<Numbers> outputs = Evaluated(probes->model, x);
  ModelQuantizer::MeanErrors errors;
  for (size_t p = 0; p < probes->outputs.size(); ++p) errors.push_back(Floats(outputs[p + 1]));
  return errors;
}

TEST(Quantizer, EightBitsOfImages) {
  const Numbers x = Random(3 * 64, 9);
  ModelQuantizer quantizer = Read(Images(), QuantizedForm::kInt8).value();
  EXPECT_EQ(quantizer.products().size(), 3u);
  // The inputs of products, the operands of the sum, and of the pool; the results of Relu instead of their operands.
  EXPECT_THAT(quantizer.Activations(), ElementsAre("c2", "f", "r1", "r2", "x"));
  EXPECT_THAT(quantizer.left_in_float(), IsEmpty());
  Calibrate(quantizer, x);
  const Numbers want = Evaluated(quantizer.FloatModel(), x)[0];
  const std::string model = quantizer.QuantizedModel().value();
  const Numbers got = Evaluated(model, x)[0];
  EXPECT_LT(Distance(got, want), 0.02);
  EXPECT_GT(Distance(got, want), 0);  // the twin: nothing was rounded
  const auto errors = MeanErrors(quantizer, x);
  for (const auto& error : errors) EXPECT_NE(*std::ranges::max_element(error), 0);
  EXPECT_LT(Distance(Evaluated(quantizer.QuantizedModel(errors).value(), x)[0], want), 0.02);
}

constexpr Precision kPrecisions[] = {Precision::kF32, Precision::kBf16, Precision::kInt8};

TEST(Quantizer, EachProductHasItsPrecision) {
  for (const ModelMaker& model : {Images(), Matrices()}) {
    ModelQuantizer quantizer = Read(model, QuantizedForm::kInt8).value();
    const Numbers x = Random(model.Bytes() == Images().Bytes() ? 3 * 64 : 40 * 64, 9);
    Calibrate(quantizer, x);
    const Numbers want = Evaluated(quantizer.FloatModel(), x)[0];
    const size_t products = quantizer.products().size();
    const auto error = [&](const std::vector<Precision>& precisions) {
      return Distance(Evaluated(quantizer.MixedModel(precisions).value(), x)[0], want);
    };
    EXPECT_LT(error(std::vector(products, Precision::kF32)), 1e-6);
    const double halves = error(std::vector(products, Precision::kBf16));
    EXPECT_GT(halves, 1e-4);
    EXPECT_LT(halves, 0.01);
    EXPECT_EQ(quantizer.MixedModel(std::vector(products, Precision::kInt8)).value(),
              quantizer.QuantizedModel().value());
    // Every mixture is an ONNX model of ordinary operators.
    for (size_t mixture = 0; mixture < 27; ++mixture) {
      std::vector<Precision> precisions = {kPrecisions[mixture % 3], kPrecisions[mixture / 3 % 3],
                                           kPrecisions[mixture / 9]};
      precisions.resize(products);
      EXPECT_LT(error(precisions), 0.03) << mixture;
    }
  }
}

TEST(Quantizer, MeanErrorsOfAMixtureAreThoseOfItsProducts) {
  const Numbers x = Random(40 * 64, 9);
  ModelQuantizer quantizer = Read(Matrices(), QuantizedForm::kInt8).value();
  Calibrate(quantizer, x);
  const auto both = MeanErrors(quantizer, x);
  const std::vector<Precision> second = {Precision::kBf16, Precision::kInt8};
  EXPECT_EQ(quantizer.MixedModel(second, both).value(), quantizer.MixedModel(second, {{1, 2, 3}, both[1]}).value());
  EXPECT_NE(quantizer.MixedModel(second, both).value(), quantizer.MixedModel(second, {both[0], {}}).value());
}

TEST(Quantizer, ASwitchChangesOneProduct) {
  const Numbers x = Random(3 * 64, 9);
  ModelQuantizer quantizer = Read(Images(), QuantizedForm::kInt8).value();
  Calibrate(quantizer, x);
  const auto switched = quantizer.SwitchedModel().value();
  EXPECT_LT(Distance(Evaluated(switched.model, x)[0], Evaluated(quantizer.FloatModel(), x)[0]), 1e-6);
  ASSERT_EQ(switched.switches.size(), 3u);
  for (size_t p = 0; p < 3; ++p) {
    for (const Precision precision : {Precision::kBf16, Precision::kInt8}) {
      std::vector<Precision> alone(3, Precision::kF32);
      alone[p] = precision;
      const auto& names = switched.switches[p];
      const Numbers got = Evaluated(switched.model, x, {}, precision == Precision::kInt8 ? names.int8 : names.bf16)[0];
      EXPECT_LT(Distance(got, Evaluated(quantizer.MixedModel(alone).value(), x)[0]), 1e-6) << p;
      EXPECT_GT(Distance(got, Evaluated(quantizer.FloatModel(), x)[0]), 1e-5) << p;
    }
  }
}

TEST(Quantizer, ProductsHaveNamesOfTheirOwn) {
  ModelMaker m(13);
  m.Input("x", {4, 16}).Output("y");
  m.Floats("w", {16, 16}, Floats(Random(256, 4)));
  m.Node("MatMul", {"x", "w"}, {"a"}, "same");
  m.Node("MatMul", {"a", "w"}, {"b"}, "same");
  m.Node("MatMul", {"b", "w"}, {"c"});
  m.Node("Relu", {"c"}, {"y"}, "c");
  const ModelQuantizer quantizer = Read(m, QuantizedForm::kInt8).value();
  std::vector<std::string> names;
  for (const auto& product : quantizer.products()) names.push_back(product.name);
  EXPECT_THAT(names, ElementsAre("same", "b", "c_"));
}

// A Gemm of 4 bits becomes two nodes, of which one has its name.
TEST(Quantizer, NodesOfQuantizedModelsHaveNamesOfTheirOwn) {
  for (const QuantizedForm form : {QuantizedForm::kInt8, QuantizedForm::kWeights4}) {
    ModelMaker m(13);
    m.Input("x", {40, 64}).Output("y");
    m.Floats("v", {64, 64}, Floats(Random(64 * 64, 6))).Floats("w", {64, 64}, Floats(Random(64 * 64, 4)));
    m.Floats("bias", {64}, Floats(Random(64, 5)));
    m.Node("MatMul", {"x", "v"}, {"a"}, "y");
    m.Node("Gemm", {"a", "w", "bias"}, {"b"}, "b");
    m.Node("Relu", {"b"}, {"y"}, "a");
    ModelQuantizer quantizer = Read(m, form).value();
    const Numbers x = Random(40 * 64, 9);
    Calibrate(quantizer, x);
    for (const bool corrected : {false, true}) {
      const ModelQuantizer::MeanErrors errors = corrected ? MeanErrors(quantizer, x) : ModelQuantizer::MeanErrors();
      onnx::ModelProto model;
      ASSERT_TRUE(model.ParseFromString(quantizer.QuantizedModel(errors).value()));
      std::set<std::string> names;
      for (const onnx::NodeProto& node : model.graph().node())
        EXPECT_TRUE(names.insert(node.name()).second) << node.name();
    }
  }
}

TEST(Quantizer, BiasCorrectionTakesTheMeanErrorAway) {
  // One product of a matrix: after the correction, the mean over the rows is that of the float product.
  ModelMaker m(13);
  m.Input("x", {50, 16}).Output("y");
  m.Floats("w", {16, 3}, Floats(Random(48, 4)));
  m.Node("MatMul", {"x", "w"}, {"y"});
  Numbers x = Random(50 * 16, 3);
  for (double& v : x) v = v * v;  // with a mean
  ModelQuantizer quantizer = Read(m, QuantizedForm::kInt8).value();
  Calibrate(quantizer, x);
  const auto mean_error = [&](const ModelQuantizer::MeanErrors& errors) {
    const Numbers got = Evaluated(quantizer.QuantizedModel(errors).value(), x)[0];
    const Numbers want = Evaluated(quantizer.FloatModel(), x)[0];
    double sums[3] = {};
    for (size_t i = 0; i < want.size(); ++i) sums[i % 3] += (got[i] - want[i]) / 50;
    return std::max({std::abs(sums[0]), std::abs(sums[1]), std::abs(sums[2])});
  };
  const double before = mean_error({});
  EXPECT_GT(before, 1e-5);
  EXPECT_LT(mean_error(MeanErrors(quantizer, x)), before / 20);
}

TEST(Quantizer, EightBitsOfMatrices) {
  const Numbers x = Random(40 * 64, 9);
  ModelQuantizer quantizer = Read(Matrices(), QuantizedForm::kInt8).value();
  EXPECT_EQ(quantizer.products().size(), 2u);
  EXPECT_THAT(quantizer.Activations(), ElementsAre("t", "x"));
  ASSERT_EQ(quantizer.left_in_float().size(), 3u);  // and Add and Tanh
  EXPECT_EQ(quantizer.left_in_float()[0].reason, "both operands are computed");
  EXPECT_THAT(quantizer.left_in_float()[0].nodes, ElementsAre("node 'computed'"));
  Calibrate(quantizer, x);
  const Numbers want = Evaluated(quantizer.FloatModel(), x)[0];
  EXPECT_LT(Distance(Evaluated(quantizer.QuantizedModel().value(), x)[0], want), 0.03);
  EXPECT_LT(Distance(Evaluated(quantizer.QuantizedModel(MeanErrors(quantizer, x)).value(), x)[0], want), 0.03);
}

TEST(Quantizer, FourBitsOfMatrices) {
  const Numbers x = Random(40 * 64, 9);
  ModelQuantizer quantizer = Read(Matrices(), QuantizedForm::kWeights4).value();
  EXPECT_EQ(quantizer.products().size(), 2u);
  EXPECT_THAT(quantizer.Activations(), IsEmpty());
  quantizer.SetRanges({});
  const Numbers want = Evaluated(quantizer.FloatModel(), x)[0];
  const std::string model = quantizer.QuantizedModel().value();
  EXPECT_EQ(ImportOnnxBytes(model, "q.onnx")->opset, 21);
  const double error = Distance(Evaluated(model, x)[0], want);
  EXPECT_LT(error, 0.3);
  EXPECT_GT(error, 0.01);
  EXPECT_LT(Distance(Evaluated(quantizer.QuantizedModel(MeanErrors(quantizer, x)).value(), x)[0], want), error * 1.1);
  // 96 x 33 weights take 4 bits, and a scale for each 32.
  EXPECT_LT(model.size(), quantizer.FloatModel().size() / 4);
}

TEST(Quantizer, FourBitsRaiseTheOperatorSet) {
  ModelMaker m(13);
  m.Input("x", {4, 64}).Output("y");
  m.Floats("w", {8, 64}, Floats(Random(8 * 64, 4))).Floats("b", {8}, Floats(Random(8, 5)));
  m.Node("Gemm", {"x", "w", "b"}, {"g"}).Int("transB", 1);
  m.Node("Split", {"g"}, {"s1", "s2"}).Int("axis", 1);
  m.Node("Sub", {"s1", "s2"}, {"d"});
  m.Node("ReduceMean", {"d"}, {"y"}).Ints("axes", {1});
  const Numbers x = Random(4 * 64, 6);
  ModelQuantizer quantizer = Read(m, QuantizedForm::kWeights4).value();
  quantizer.SetRanges({});
  EXPECT_LT(Distance(Evaluated(quantizer.QuantizedModel().value(), x)[0], Output(m, {x})), 0.2);
}

TEST(Quantizer, OutliersCostLessWithPercentiles) {
  // One value of 1000 among 2560 of at most 1.
  Numbers x = Random(40 * 64, 9), ordinary = Random(40 * 64, 10);
  x[5] = 1000;
  double errors[2];
  for (int i = 0; i < 2; ++i) {
    ModelQuantizer quantizer = Read(Matrices(), QuantizedForm::kInt8).value();
    Calibrate(quantizer, x, i == 0 ? 100 : 99.9);
    errors[i] = Distance(Evaluated(quantizer.QuantizedModel().value(), ordinary)[0],
                         Evaluated(quantizer.FloatModel(), ordinary)[0]);
  }
  EXPECT_LT(errors[1], errors[0] / 5) << errors[0];
}

TEST(Quantizer, LargeBiasesOfSmallWeightsStayExact) {
  ModelMaker m(13);
  m.Input("x", {2, 8}).Output("y");
  std::vector<float> w(16, 0);
  w[1] = 1e-12f;
  m.Floats("w", {8, 2}, w).Floats("b", {2}, {3, -70000});
  m.Node("Gemm", {"x", "w", "b"}, {"y"});
  ModelQuantizer quantizer = Read(m, QuantizedForm::kInt8).value();
  const Numbers x = Random(16, 1);
  Calibrate(quantizer, x);
  EXPECT_LT(Distance(Evaluated(quantizer.QuantizedModel().value(), x)[0], {3, -70000, 3, -70000}), 1e-6);
}

TEST(Quantizer, ReadersInFloatReadFloats) {
  // The Relu's result is an output of the model, so it stays.
  ModelMaker m(13);
  m.Input("x", {1, 3, 6, 6}).Output("r").Output("y");
  m.Floats("w1", {4, 3, 1, 1}, Floats(Random(12, 1))).Floats("w2", {4, 4, 1, 1}, Floats(Random(16, 2)));
  m.Node("Conv", {"x", "w1"}, {"c"});
  m.Node("Relu", {"c"}, {"r"});
  m.Node("Conv", {"r", "w2"}, {"d"});
  m.Node("Sigmoid", {"r"}, {"g"});
  m.Node("Mul", {"d", "g"}, {"y"});
  const Numbers x = Random(108, 1);
  ModelQuantizer quantizer = Read(m, QuantizedForm::kInt8).value();
  Calibrate(quantizer, x);
  const auto got = Evaluated(quantizer.QuantizedModel().value(), x), want = Evaluated(quantizer.FloatModel(), x);
  for (int i : {0, 1}) EXPECT_LT(Distance(got[i], want[i]), 0.03);
  EXPECT_GE(*std::ranges::min_element(got[0]), 0);
}

TEST(Quantizer, WhatDependsOnShapesOnlyStaysInFloat) {
  ModelMaker m(13);
  m.Input("x", {2, 3}).Output("y");
  m.Floats("w", {3, 3}, Floats(Random(9, 1))).Floats("f", {2, 3}, Floats(Random(6, 2)));
  m.Node("Shape", {"x"}, {"s"});
  m.Node("Cast", {"s"}, {"numbers"}).Int("to", 1);
  m.Node("MatMul", {"numbers", "f"}, {"positions"}, "positions");
  m.Node("MatMul", {"x", "w"}, {"p"});
  m.Node("Add", {"p", "positions"}, {"y"});
  const ModelQuantizer quantizer = Read(m, QuantizedForm::kInt8).value();
  EXPECT_EQ(quantizer.products().size(), 1u);
  EXPECT_EQ(quantizer.left_in_float()[0].reason, "it depends on constants alone");
}

TEST(Quantizer, TakesExternalDataIntoTheModel) {
  const std::string folder = testing::TempDir() + "quantizer_external";
  std::filesystem::create_directories(folder);
  const std::vector<float> w = Floats(Random(16, 1));
  std::ofstream(folder + "/w.bin", std::ios::binary).write(reinterpret_cast<const char*>(w.data()), 64);
  ModelMaker m(13);
  m.Input("x", {2, 4}).Output("y").Floats("w", {4, 4}, w).Node("MatMul", {"x", "w"}, {"y"});
  const Numbers x = Random(8, 2), want = Output(m, {x});
  m.MarkExternal("w", {{"location", "w.bin"}});
  ModelQuantizer quantizer = ModelQuantizer::FromBytes(m.Bytes(), "m.onnx", folder, QuantizedForm::kInt8).value();
  Calibrate(quantizer, x);
  EXPECT_LT(Distance(Evaluated(quantizer.QuantizedModel().value(), x)[0], want), 0.03);
  // Without the folder, nobody finds the data.
  EXPECT_THAT(ErrorOf(m, QuantizedForm::kInt8), HasSubstr("without a folder"));
  std::filesystem::remove_all(folder);
}

TEST(Quantizer, RefusesWhatItCannotDo) {
  EXPECT_THAT(ErrorOf(Images(12), QuantizedForm::kInt8), HasSubstr("uses ONNX operator set 12"));
  EXPECT_THAT(ErrorOf(Matrices(21), QuantizedForm::kInt8), HasSubstr("no error"));
  ModelMaker conv(13);
  conv.Input("x", {1, 1, 4, 4}).Output("y").Floats("w", {1, 1, 1, 1}, {2}).Node("Conv", {"x", "w"}, {"y"}, "c");
  EXPECT_THAT(ErrorOf(conv, QuantizedForm::kInt8), HasSubstr("no error"));
  EXPECT_THAT(ErrorOf(conv, QuantizedForm::kWeights4),
              HasSubstr("Conv (node 'c') stays in float: only weights of matrices get 4 bits"));
  ModelMaker none(13);
  none.Input("x", {4}).Output("y").Node("Relu", {"x"}, {"y"});
  EXPECT_THAT(ErrorOf(none, QuantizedForm::kInt8), HasSubstr("there is nothing to quantize"));
  ModelQuantizer quantizer = Read(Images(), QuantizedForm::kInt8).value();
  Calibrate(quantizer, Random(3 * 64, 9));
  const auto again = ModelQuantizer::FromBytes(quantizer.QuantizedModel().value(), "q.onnx", "", QuantizedForm::kInt8);
  ASSERT_FALSE(again.ok());
  EXPECT_THAT(again.error().Text(), HasSubstr("q.onnx is quantized already: it has "));
  EXPECT_THAT(ModelQuantizer::FromBytes("garbage", "m.onnx", "", QuantizedForm::kInt8).error().Text(),
              HasSubstr("is not an ONNX model"));
}

}  // namespace
}  // namespace autotune
