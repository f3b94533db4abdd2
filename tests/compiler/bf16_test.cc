// Products of bf16 on this CPU: of rounded f32 networks, and of models with bf16 tensors. Each result is within the
// rounding of f32 sums of the sum of the rounded operands' products.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "compiler/compile.h"
#include "ir/float_math.h"
#include "package/load.h"
#include "support/cpu_features.h"
#include "support/rng.h"
#include "tests/frontend/model_maker.h"

namespace autotune {
namespace {

// Features of a CPU that multiplies bf16.
using CpuFeatures = std::vector<std::string>;
const CpuFeatures kVectors = {"avx512bf16"}, kTiles = {"amx-bf16", "amx-int8", "amx-tile"};

std::vector<float> Random(int64_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<float>(rng.Uniform() * 2 - 1));
  return numbers;
}

class Bf16 : public ::testing::TestWithParam<CpuFeatures> {
 protected:
  void SetUp() override {
    if (!CheckCpuFeatures(GetParam()).ok() || !CheckCpuFeatures({"avx512vl"}).ok())
      GTEST_SKIP() << "this CPU has no " << GetParam()[0];
    folder_ = ::testing::TempDir() + "bf16-XXXXXX";
    ASSERT_TRUE(mkdtemp(folder_.data()));
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  // Returns the model's first output for the input `x`.
  std::vector<float> Compute(const ModelMaker& m, const Tensor& x, bool bf16) {
    std::ofstream(folder_ + "/m.onnx", std::ios::binary) << m.Bytes();
    const auto builder =
        MakeBuildWorkers(
            {.workers = 1, .command = {std::string(AUTOTUNE_BINARY_DIR) + "/tools/autotune", "--build-worker"}})
            .value();
    std::string text = "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v4 -num-cores=2 -caches=32K,1M,16M -mattr=";
    for (const std::string& feature : GetParam()) text += (text.ends_with('=') ? "+" : ",+") + feature;
    const Target target = Target::Parse(text).value();
    const auto network = LoadNetwork(folder_ + "/m.onnx", {.bf16 = bf16}, target, *builder);
    if (!network.ok()) return ADD_FAILURE() << network.error().Text(), std::vector<float>();
    const auto compiled = Compile(*network, target, nullptr, *builder);
    if (!compiled.ok()) return ADD_FAILURE() << compiled.error().Text(), std::vector<float>();
    EXPECT_TRUE(WriteCompiled(compiled->package, folder_ + "/p.so", *builder).ok());
    const auto model = LoadModel(folder_ + "/p.so", 1);
    if (!model.ok()) return ADD_FAILURE() << model.error().Text(), std::vector<float>();
    EXPECT_TRUE(model->executor->SetInput(0, x).ok());
    EXPECT_TRUE(model->executor->Run().ok());
    const Tensor y = ToHost(model->executor->Output(0)).value();
    return {y.Data<float>(), y.Data<float>() + y.num_elements()};
  }

  std::string folder_;
};

double Rounded(double value) { return RoundFloat(value, DType::BFloat16()); }

constexpr double kSums = 0x1p-20;  // relative to the sum of magnitudes: a few roundings of f32

TEST_P(Bf16, ProductsOfRoundedMatrices) {
  const int64_t rows = 35, terms = 130, columns = 80;
  const std::vector<float> x = Random(rows * terms, 1), w = Random(terms * columns, 2);
  ModelMaker m;
  m.Input("x", {rows, terms}).Floats("w", {terms, columns}, w).Output("y").Node("MatMul", {"x", "w"}, {"y"});
  const Tensor input =
      Tensor::FromBytes({rows, terms}, {kDLFloat, 32, 1}, {reinterpret_cast<const char*>(x.data()), x.size() * 4})
          .value();
  const std::vector<float> y = Compute(m, input, true), as_model = Compute(m, input, false);
  ASSERT_EQ(y.size(), static_cast<size_t>(rows * columns));
  int64_t differ = 0;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      double sum = 0, magnitude = 0, plain = 0;
      for (int64_t k = 0; k < terms; ++k) {
        const double term = Rounded(x[i * terms + k]) * Rounded(w[k * columns + j]);
        sum += term, magnitude += std::abs(term);
        plain += static_cast<double>(x[i * terms + k]) * w[k * columns + j];
      }
      ASSERT_NEAR(y[i * columns + j], sum, magnitude * kSums) << i << " " << j;
      ASSERT_NEAR(as_model[i * columns + j], plain, magnitude * kSums) << "nothing is rounded unless asked for";
      differ += std::abs(sum - plain) > magnitude * kSums;
    }
  }
  EXPECT_GT(differ, rows * columns / 2) << "this test would not notice whether operands are rounded";
}

TEST_P(Bf16, ConvolutionsOfRoundedImages) {
  const int64_t size = 9, channels = 10, filters = 32;
  const std::vector<float> x = Random(channels * size * size, 3), w = Random(filters * channels * 9, 4);
  ModelMaker m;
  m.Input("x", {1, channels, size, size}).Floats("w", {filters, channels, 3, 3}, w).Output("y");
  m.Node("Conv", {"x", "w"}, {"y"}).Ints("pads", {1, 1, 1, 1}).Ints("strides", {2, 2});
  const Tensor input = Tensor::FromBytes({1, channels, size, size}, {kDLFloat, 32, 1},
                                         {reinterpret_cast<const char*>(x.data()), x.size() * 4})
                           .value();
  const std::vector<float> y = Compute(m, input, true);
  const int64_t out = (size + 1) / 2;
  ASSERT_EQ(y.size(), static_cast<size_t>(filters * out * out));
  for (int64_t f = 0; f < filters; ++f) {
    for (int64_t at = 0; at < out * out; ++at) {
      double sum = 0, magnitude = 0;
      for (int64_t t = 0; t < channels * 9; ++t) {
        const int64_t row = at / out * 2 + t % 9 / 3 - 1, column = at % out * 2 + t % 3 - 1;
        if (row < 0 || row >= size || column < 0 || column >= size) continue;
        const double term = Rounded(x[t / 9 * size * size + row * size + column]) * Rounded(w[f * channels * 9 + t]);
        sum += term, magnitude += std::abs(term);
      }
      ASSERT_NEAR(y[f * out * out + at], sum, magnitude * kSums) << f << " " << at;
    }
  }
}

// A model of bf16 with batch normalization: without being asked, its products are those of its rounded numbers.
TEST_P(Bf16, ModelsOfBf16) {
  constexpr int kBFloat16 = 16;
  const int64_t rows = 20, terms = 96, columns = 64;
  const std::vector<float> x = Random(rows * terms, 5), w = Random(terms * columns, 6), s = Random(columns, 7);
  ModelMaker m(22);
  m.Input("x", {rows, terms}).Floats("w", {terms, columns}, w).Floats("s", {columns}, s).Output("y");
  for (const char* name : {"x", "w", "s"}) m.Node("Cast", {name}, {name + std::string("_half")}).Int("to", kBFloat16);
  m.Node("Add", {"x_half", "x_half"}, {"twice"});
  m.Node("MatMul", {"twice", "w_half"}, {"product"});
  m.Node("Mul", {"product", "s_half"}, {"scaled"});
  m.Node("Cast", {"scaled"}, {"y"}).Int("to", 1);
  const Tensor input =
      Tensor::FromBytes({rows, terms}, {kDLFloat, 32, 1}, {reinterpret_cast<const char*>(x.data()), x.size() * 4})
          .value();
  const std::vector<float> y = Compute(m, input, false);
  ASSERT_EQ(y.size(), static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < terms; ++k) {
        const double term = 2 * Rounded(x[i * terms + k]) * Rounded(w[k * columns + j]) * Rounded(s[j]);
        sum += term, magnitude += std::abs(term);
      }
      const double rounding = std::abs(sum) * 0x1p-8;  // of the result to bf16
      ASSERT_NEAR(y[i * columns + j], sum, magnitude * kSums + rounding) << i << " " << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(By, Bf16, ::testing::Values(kVectors, kTiles));

}  // namespace
}  // namespace autotune
