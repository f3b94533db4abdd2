// Products with weights in blocks, by compiled code. Sums of integers are exact on every target, and so are those of
// floats that are small multiples of 1/8.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "compiler/compile.h"
#include "package/load.h"
#include "support/cpu_features.h"
#include "support/rng.h"
#include "tests/frontend/block_product.h"

namespace autotune {
namespace {

struct CodeFor {
  const char* name;
  const char* target;
  std::vector<std::string> features;  // of the CPU that runs it
};
const CodeFor kTargets[] = {
    {"vnni", "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v4 -mattr=+avx512vnni", {"avx512vl", "avx512vnni"}},
    {"haswell", "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell", {"avx2", "fma"}},
};

class BlockIntegers : public ::testing::TestWithParam<CodeFor> {
 protected:
  void SetUp() override {
    if (!CheckCpuFeatures(GetParam().features).ok()) GTEST_SKIP() << "this CPU has no " << GetParam().features[0];
    folder_ = ::testing::TempDir() + "block-integers-XXXXXX";
    ASSERT_TRUE(mkdtemp(folder_.data()));
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  // Returns the outputs of the model for these inputs.
  std::vector<Numbers> Compute(const ModelMaker& m, const std::vector<BlockProduct>& products,
                               const std::vector<BlockProductData>& data, bool int8 = false) {
    std::ofstream(folder_ + "/m.onnx", std::ios::binary) << m.Bytes();
    const auto builder =
        MakeBuildWorkers(
            {.workers = 1, .command = {std::string(AUTOTUNE_BINARY_DIR) + "/tools/autotune", "--build-worker"}})
            .value();
    const Target target = Target::Parse(GetParam().target).value();
    const auto network = LoadNetwork(folder_ + "/m.onnx", {.int8 = int8}, target, *builder);
    if (!network.ok()) return ADD_FAILURE() << network.error().Text(), std::vector<Numbers>();
    const auto compiled = Compile(*network, target, nullptr, *builder);
    if (!compiled.ok()) return ADD_FAILURE() << compiled.error().Text(), std::vector<Numbers>();
    EXPECT_TRUE(WriteCompiled(compiled->package, folder_ + "/p.so", *builder).ok());
    const auto model = LoadModel(folder_ + "/p.so", 1);
    if (!model.ok()) return ADD_FAILURE() << model.error().Text(), std::vector<Numbers>();
    for (size_t i = 0; i < products.size(); ++i) {
      const std::vector<float> x(data[i].x.begin(), data[i].x.end());
      const std::string_view bytes(reinterpret_cast<const char*>(x.data()), x.size() * sizeof(float));
      const Tensor input =
          Tensor::FromBytes({products[i].rows, products[i].k}, {kDLFloat, 32, 1}, {bytes.data(), bytes.size()}).value();
      EXPECT_TRUE(model->executor->SetInput(static_cast<int>(i), input).ok());
    }
    EXPECT_TRUE(model->executor->Run().ok());
    std::vector<Numbers> outputs;
    for (size_t i = 0; i < products.size(); ++i) {
      const Tensor y = ToHost(model->executor->Output(static_cast<int>(i))).value();
      outputs.emplace_back(y.Data<float>(), y.Data<float>() + y.num_elements());
    }
    return outputs;
  }

  std::string folder_;
};

BlockProduct RandomProduct(Rng& rng, int64_t most_rows) {
  return {.rows = 1 + rng.Below(most_rows),
          .k = 20 + rng.Below(400),
          .n = 3 + rng.Below(100),
          .block = int64_t{16} << rng.Below(5),
          .zeros = rng.Below(2) == 0 ? BlockProduct::kPacked : BlockProduct::kNone,
          .has_bias = rng.Below(2) == 0};
}

TEST_P(BlockIntegers, ProductsOfRandomShapes) {
  Rng rng(7);
  ModelMaker m(21);
  std::vector<BlockProduct> products;
  std::vector<BlockProductData> data;
  for (int i = 0; i < 10; ++i) {
    BlockProduct p = RandomProduct(rng, 5);
    p.bits = i % 2 == 0 ? 4 : 8, p.level = 4;
    if (i < 2) p.rows = 1, p.n = 70, p.zeros = BlockProduct::kNone;
    products.push_back(p);
    data.push_back(AddBlockProduct(m, p, std::to_string(i), static_cast<uint64_t>(i) + 1));
  }
  const std::vector<Numbers> got = Compute(m, products, data);
  ASSERT_EQ(got.size(), products.size());
  int64_t differ = 0, all = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const BlockProductData& d = data[i];
    ASSERT_EQ(got[i].size(), d.want.size());
    for (size_t j = 0; j < got[i].size(); ++j) {
      ASSERT_NEAR(got[i][j], d.want[j], d.bounds[j]) << "product " << i << ", element " << j;
      differ += std::abs(d.want[j] - d.want_exact[j]) > 2 * d.bounds[j];
      ++all;
    }
  }
  EXPECT_GT(differ, all / 2) << "this test would not notice whether data are rounded";
}

TEST_P(BlockIntegers, ProductsOfFloats) {
  Rng rng(9);
  ModelMaker m(21);
  std::vector<BlockProduct> products;
  std::vector<BlockProductData> data;
  for (int i = 0; i < 10; ++i) {
    BlockProduct p = RandomProduct(rng, 9);
    p.bits = i % 4 == 3 ? 8 : 4;
    if (i < 4) p.rows = 1 + i, p.n = 70;
    products.push_back(p);
    data.push_back(AddBlockProduct(m, p, std::to_string(i), static_cast<uint64_t>(i) + 1));
  }
  const std::vector<Numbers> got = Compute(m, products, data);
  ASSERT_EQ(got.size(), products.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], data[i].want) << "product " << i;
}

TEST_P(BlockIntegers, OnlyOnRequest) {
  const BlockProduct exact{.n = 40}, rounded{.n = 40, .level = 4};
  ModelMaker m(21), other(21);
  AddBlockProduct(m, exact);
  const BlockProductData d = AddBlockProduct(other, rounded);
  for (const bool int8 : {false, true}) {
    const std::vector<Numbers> got = Compute(m, {exact}, {d}, int8);
    ASSERT_EQ(got.size(), 1u);
    for (size_t j = 0; j < d.want.size(); ++j)
      ASSERT_NEAR(got[0][j], int8 ? d.want[j] : d.want_exact[j], d.bounds[j]) << int8 << " " << j;
  }
}

INSTANTIATE_TEST_SUITE_P(On, BlockIntegers, ::testing::ValuesIn(kTargets),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace autotune
