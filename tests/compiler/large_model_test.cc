// A model of more than 2 GiB with its weights in a separate file is imported, compiled, packaged and run. No size on
// this way is truncated to 32 bits.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "compiler/compile.h"
#include "package/load.h"
#include "tests/draws.h"
#include "tests/frontend/model_maker.h"

namespace autotune {
namespace {

// Returns the available memory in bytes: free, or used as a cache of files.
int64_t FreeMemory() {
  std::ifstream info("/proc/meminfo");
  std::string name;
  for (int64_t kilobytes = 0; info >> name >> kilobytes; info.ignore(100, '\n')) {
    if (name == "MemAvailable:") return kilobytes << 10;
  }
  return 0;
}

TEST(LargeModel, FromTheModelToTheRun) {
  if (!test::DrawsAll()) GTEST_SKIP() << "takes half a minute: AUTOTUNE_DRAWS=all runs it";
  constexpr int64_t kRows = (int64_t{1} << 19) + 4096, kColumns = 1024, kBytes = kRows * kColumns * 4;
  static_assert(kBytes > int64_t{1} << 31);
  std::string folder = ::testing::TempDir() + "large-XXXXXX";
  ASSERT_TRUE(mkdtemp(folder.data()));
  struct Cleaner {
    std::string folder;
    ~Cleaner() { std::filesystem::remove_all(folder); }
  } cleaner{folder};
  if (FreeMemory() < 4 * kBytes) GTEST_SKIP() << "needs " << 4 * kBytes << " bytes of memory";
  if (std::filesystem::space(folder).available < static_cast<uintmax_t>(2 * kBytes))
    GTEST_SKIP() << "needs " << 2 * kBytes << " bytes below " << ::testing::TempDir();

  // A table of zeros, which take no space on disk, with numbers in its last row.
  std::vector<float> last(kColumns);
  std::iota(last.begin(), last.end(), 1.0f);
  {
    std::ofstream weights(folder + "/weights", std::ios::binary);
    weights.seekp((kRows - 1) * kColumns * 4);
    weights.write(reinterpret_cast<const char*>(last.data()), kColumns * 4);
    ASSERT_TRUE(weights.flush().good());
  }
  ModelMaker m;
  constexpr int kInt64 = 7;
  m.Input("rows", {2}, kInt64).Floats("table", {kRows, kColumns}, {}).Output("y");
  m.MarkExternal("table", {{"location", "weights"}});
  m.Node("Gather", {"table", "rows"}, {"y"});
  std::ofstream(folder + "/m.onnx", std::ios::binary) << m.Bytes();

  Target target = Target::Parse("cpu").value();
  auto builder = MakeBuildWorkers({.workers = 1,
                                   .command = {std::string(AUTOTUNE_BINARY_DIR) + "/tools/autotune", "--build-worker"}})
                     .value();
  {
    auto network = LoadNetwork(folder + "/m.onnx", {}, target, *builder);
    ASSERT_TRUE(network.ok()) << network.error().Text();
    auto compiled = Compile(*network, target, nullptr, *builder);
    ASSERT_TRUE(compiled.ok()) << compiled.error().Text();
    Status written = WritePackage(compiled->package, folder + "/p.tar");
    ASSERT_TRUE(written.ok()) << written.error().Text();
  }
  auto model = LoadModel(folder + "/p.tar", 1);
  ASSERT_TRUE(model.ok()) << model.error().Text();
  const int64_t rows[] = {0, kRows - 1};
  auto input = Tensor::FromBytes({2}, {kDLInt, 64, 1}, {reinterpret_cast<const char*>(rows), sizeof rows});
  ASSERT_TRUE(model->executor->SetInput(0, input.value()).ok());
  ASSERT_TRUE(model->executor->Run().ok());
  const float* y = model->executor->Output(0).Data<float>();
  EXPECT_EQ(std::vector<float>(y, y + kColumns), std::vector<float>(kColumns, 0));
  EXPECT_EQ(std::vector<float>(y + kColumns, y + 2 * kColumns), last);
}

}  // namespace
}  // namespace autotune
