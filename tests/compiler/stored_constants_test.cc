// How a package stores constants: weights of few bits keep few bits though the products of many rows take floats, and
// the loaded network computes with exactly these floats.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "compiler/compile.h"
#include "package/load.h"
#include "runtime/stored_params.h"
#include "support/rng.h"
#include "tests/frontend/model_maker.h"

namespace autotune {
namespace {

constexpr int kUInt8 = 2, kRows = 64, kTerms = 256, kColumns = 96, kBlock = 32;

// A product of many rows with weights of `bits` bits, in blocks.
struct Case {
  int64_t bits = 4;
  bool zeros = false;  // a zero point for each block
};

class StoredConstants : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "stored-XXXXXX";
    ASSERT_TRUE(mkdtemp(folder_.data()));
    builder_ = MakeBuildWorkers(
                   {.workers = 1, .command = {std::string(AUTOTUNE_BINARY_DIR) + "/tools/autotune", "--build-worker"}})
                   .value();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Writes the model. The numbers of a block and column are those of one range of `bits` bits.
  std::string Model() {
    const auto [bits, zeros] = GetParam();
    Rng rng(4);
    std::vector<uint8_t> packed(static_cast<size_t>(kColumns * kTerms * bits / 8));
    std::vector<uint8_t> points(static_cast<size_t>(kColumns * kTerms / kBlock * bits / 8));
    for (uint8_t& byte : packed) byte = static_cast<uint8_t>(rng.Below(256));
    for (uint8_t& byte : points) byte = static_cast<uint8_t>(rng.Below(256));
    std::vector<float> scales;
    for (int i = 0; i < kColumns * kTerms / kBlock; ++i) scales.push_back(static_cast<float>(rng.Uniform()));
    ModelMaker m;
    m.Input("x", {kRows, kTerms}).Output("y").ImportDomain("com.microsoft");
    m.Bytes8("w", {kColumns, kTerms / kBlock, kBlock * bits / 8}, packed, kUInt8);
    m.Bytes8("z", {static_cast<int64_t>(points.size())}, points, kUInt8);
    m.Floats("s", {kColumns * kTerms / kBlock}, scales);
    m.Node("MatMulNBits", {"x", "w", "s", zeros ? "z" : ""}, {"y"})
        .Domain("com.microsoft")
        .Int("K", kTerms)
        .Int("N", kColumns)
        .Int("bits", bits)
        .Int("block_size", kBlock);
    std::ofstream(folder_ + "/m.onnx", std::ios::binary) << m.Bytes();
    return folder_ + "/m.onnx";
  }

  static std::vector<float> OutputOf(LoadedModel model) {
    EXPECT_TRUE(FillInputs(*model.executor, 3).ok());
    EXPECT_TRUE(model.executor->Run().ok());
    const Tensor y = ToHost(model.executor->Output(0)).value();
    return {y.Data<float>(), y.Data<float>() + y.num_elements()};
  }

  std::string folder_;
  std::unique_ptr<Builder> builder_;
};

TEST_P(StoredConstants, KeepTheirBits) {
  const Target target = Target::Parse("cpu").value();
  const Network network = LoadNetwork(Model(), {}, target, *builder_).value();
  const Package package = Compile(network, target, nullptr, *builder_).value().package;
  const Params stored = ParseParams(package.params).value();
  int64_t bytes = 0, floats = 0;
  for (const auto& [name, tensor] : stored) bytes += tensor.num_bytes();
  const Params whole = Widened(Graph::Parse(package.graph_json).value(), stored).value();
  for (const auto& [name, tensor] : whole) floats += tensor.num_bytes();
  EXPECT_EQ(floats, kTerms * kColumns * 4) << "a product of many rows takes floats";
  const int64_t scales = kTerms / kBlock * kColumns * 4;
  EXPECT_LE(bytes, kTerms * kColumns * GetParam().bits / 8 + scales + scales / 4 + 64) << "offsets take a byte";

  // The same network with all constants in f32.
  Package plain = package;
  plain.params = ParamsBytes(whole);
  const std::vector<float> want = OutputOf(LoadModel(plain, 1).value());
  EXPECT_EQ(OutputOf(LoadModel(package, 1).value()), want);
  ASSERT_TRUE(WriteCompiled(package, folder_ + "/p.so", *builder_).ok());
  EXPECT_EQ(OutputOf(LoadModel(folder_ + "/p.so", 1).value()), want);
}

// A graph whose variables do not name a stored constant, as a damaged package may have, is refused.
TEST_P(StoredConstants, OfAnotherGraphAreRefused) {
  const Target target = Target::Parse("cpu").value();
  const Network network = LoadNetwork(Model(), {}, target, *builder_).value();
  Package package = Compile(network, target, nullptr, *builder_).value().package;
  Params stored = ParseParams(package.params).value();
  ASSERT_TRUE(stored.contains("p0.numbers"));
  auto numbers = stored.extract("p0.numbers");
  numbers.key() = "p7.numbers";
  stored.insert(std::move(numbers));
  package.params = ParamsBytes(stored);
  EXPECT_FALSE(LoadModel(package, 1).ok());
}

INSTANTIATE_TEST_SUITE_P(Bits, StoredConstants, ::testing::Values(Case{4, false}, Case{4, true}, Case{8, false}));

}  // namespace
}  // namespace autotune
