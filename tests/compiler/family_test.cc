// Layers that differ only in numbers on which no schedule depends: one of them is tuned, and all follow its schedules.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "ir/text.h"
#include "records/memory_store.h"
#include "support/rng.h"
#include "tests/compiler/compile_fixture.h"
#include "tests/frontend/model_maker.h"

namespace autotune {
namespace {

constexpr int64_t kRows = 5, kWidth = 48;

class FamilyTest : public CompileTest {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "family-XXXXXX";
    ASSERT_TRUE(mkdtemp(folder_.data()));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // A network of layers x := f(relu(x * w)); `op` computes f with a number for each layer.
  Network Layers(const std::string& op, const std::vector<float>& numbers) {
    Rng rng(7);
    ModelMaker m;
    m.Input("x0", {kRows, kWidth}).Output("x" + std::to_string(numbers.size()));
    weights_.clear();
    for (size_t i = 0; i < numbers.size(); ++i) {
      const std::string at = std::to_string(i);
      std::vector<float> w;
      for (int64_t k = 0; k < kWidth * kWidth; ++k) w.push_back(static_cast<float>(rng.Uniform() - 0.4) / 4);
      m.Floats("w" + at, {kWidth, kWidth}, w).Floats("c" + at, {}, {numbers[i]});
      m.Node("MatMul", {"x" + at, "w" + at}, {"p" + at});
      m.Node("Relu", {"p" + at}, {"r" + at});
      m.Node(op, {"r" + at, "c" + at}, {"x" + std::to_string(i + 1)});
      weights_.push_back(std::move(w));
    }
    std::ofstream(folder_ + "/m.onnx", std::ios::binary) << m.Bytes();
    return LoadNetwork(folder_ + "/m.onnx", {}, target(), *shared_->builder).value();
  }

  std::string folder_;
  std::vector<std::vector<float>> weights_;
};

TEST_F(FamilyTest, OneOfThemIsTunedForAll) {
  const std::vector<float> numbers = {0.3f, 1.75f, 1.75f, 1, 2.5f};
  const Network network = Layers("Mul", numbers);
  ASSERT_EQ(network.tasks.size(), 4u) << "each number has its own code";
  const std::vector<TuneTask> tasks = MakeTuneTasks(network);
  ASSERT_EQ(tasks.size(), 1u);
  EXPECT_EQ(tasks[0].weight, 5);
  const auto most_calls = std::ranges::max_element(network.tasks, {}, &NetworkTask::weight);
  EXPECT_EQ(tasks[0].hash, most_calls->hash) << "the one with the most calls";

  auto store = NewMemoryStore();
  const Record record = RecordOf(tasks[0], 3);
  ASSERT_TRUE(store->Append(std::vector<Record>{record}).ok());
  const CompileResult compiled = Compile(network, target(), store.get(), *shared_->builder).value();
  EXPECT_EQ(compiled.package.info.tuned_tasks, 4);
  for (const KernelChoice& choice : compiled.choices) EXPECT_EQ(choice.trace, record.trace);

  LoadedModel model = LoadModel(compiled.package, 2).value();
  Tensor x = Tensor::Empty({kRows, kWidth}, {kDLFloat, 32, 1}).value();
  std::vector<double> want;
  for (int64_t i = 0; i < kRows * kWidth; ++i) want.push_back(x.Data<float>()[i] = static_cast<float>(i % 7) / 4);
  std::vector<double> magnitudes = want;  // the same sums without signs, of which errors are a share
  ASSERT_TRUE(model.executor->SetInput(0, x).ok());
  ASSERT_TRUE(model.executor->Run().ok());
  for (size_t layer = 0; layer < numbers.size(); ++layer) {
    std::vector<double> next(want.size()), next_magnitudes(want.size());
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t j = 0; j < kWidth; ++j) {
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < kWidth; ++k) {
          const double weight = weights_[layer][k * kWidth + j];
          sum += want[i * kWidth + k] * weight;
          magnitude += magnitudes[i * kWidth + k] * std::abs(weight);
        }
        next[i * kWidth + j] = std::max(sum, 0.0) * numbers[layer];
        next_magnitudes[i * kWidth + j] = magnitude * numbers[layer];
      }
    }
    want = next, magnitudes = next_magnitudes;
  }
  const Tensor y = model.executor->Output(0);
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(y.Data<float>()[i], want[i], 1e-6 * magnitudes[i]) << i;
}

TEST_F(FamilyTest, TheFastestRecordOfTheFamilyServesAll) {
  const Network network = Layers("Mul", {0.3f, 1.75f, 1.75f});
  const TuneTask tuned = MakeTuneTasks(network)[0];
  const auto other =
      std::ranges::find_if(network.tasks, [&](const NetworkTask& task) { return task.hash != tuned.hash; });
  Record record = RecordOf(tuned, 3), own = RecordOf(MakeTuneTask(network, *other), 0);
  ASSERT_NE(record.trace, own.trace);
  record.cost = 2e-6;
  for (const double cost : {3e-6, 1e-6}) {
    own.cost = cost;
    auto store = NewMemoryStore();
    ASSERT_TRUE(store->Append(std::vector<Record>{record, own}).ok());
    const CompileResult compiled = Compile(network, target(), store.get(), *shared_->builder).value();
    for (const KernelChoice& choice : compiled.choices)
      EXPECT_EQ(choice.trace, cost < record.cost ? own.trace : record.trace) << cost;
  }
}

TEST_F(FamilyTest, OtherLayersAreTunedThemselves) {
  EXPECT_EQ(MakeTuneTasks(Layers("Pow", {2, 3})).size(), 2u) << "other numbers need other code";
  for (const char* op : {"Add", "Max"}) EXPECT_EQ(MakeTuneTasks(Layers(op, {0.5f, 0.25f})).size(), 1u) << op;
}

}  // namespace
}  // namespace autotune
