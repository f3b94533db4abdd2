// Sketches for GPUs: products lie in tiles of shared memory, and after every pass of lowering each draw still computes
// the same, interpreted with threads in a random order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir/threads.h"
#include "ir/visit.h"
#include "lower/lower.h"
#include "lower/warp_accesses.h"
#include "schedule/replay.h"
#include "tests/ir/random_program.h"
#include "tests/lower/refusals.h"
#include "tests/lower/run_lowered.h"
#include "tests/tuner/programs.h"
#include "tests/tuner/sketch_space.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;

Target Gpu() { return Target::Parse("opencl -mtriple=x86_64-linux-gnu -max-threads=1024 -shared=48K").value(); }

// Why the rule does not tile the block, or "".
std::string Refusal(const PrimFunc& func, const std::string& block) {
  const Target gpu = Gpu();
  SketchBuilder s(func, gpu);
  const std::vector<BlockView> blocks = s.Blocks();
  const BlockView* view = FindBlock(blocks, block);
  if (!view) return "there is no block " + block;
  Status placed = GpuTilingRule(s, *view, 0);
  return placed.ok() ? "" : placed.error().Text();
}

Target GpuWithAsyncCopies() { return Target::Parse("cuda -arch=sm_80 -mtriple=x86_64-linux-gnu").value(); }

bool HasAsyncStores(const Stmt& s) {
  bool found = false;
  Walk(s, [&](const Stmt& x) { return found |= IsAsyncStore(x), !found; });
  return found;
}

void CheckDrawsFor(const Target& target, const PrimFunc& program, int draws, bool tiled) {
  std::vector<InterpArray> args = test::RandomArgs(program, 3);
  std::string error;
  const std::vector<double> want = RunLowered(program, Lower(program, test::TestTarget()).value(), args, error);
  ASSERT_EQ(error, "");
  Rng rng(5);
  for (const Sketch& sketch : GenerateSketches(program, target).value()) {
    EXPECT_EQ(sketch.name.find(":gpu_tiles") != std::string::npos, tiled) << sketch.name;
    int lowered = 0, barriers = 0, async = 0;
    for (int i = 0; i < draws; ++i) {
      const Trace trace = Decide(sketch, DrawDecisions(sketch, rng));
      Result<Schedule> schedule = Replay(program, trace);
      ASSERT_TRUE(schedule.ok()) << schedule.error().Text() << "\n" << ToText(trace);
      Result<LoweredKernel> kernel = Lower(schedule->func(), target);
      if (!kernel.ok()) {
        EXPECT_TRUE(IsAmong(kernel.error().message, kGpuRefusals)) << kernel.error().Text() << ToText(schedule->func());
        continue;
      }
      ++lowered;
      barriers += HasBarrier(kernel->run.body);
      async += HasAsyncStores(kernel->run.body);
      const std::vector<double> got = RunLowered(program, *kernel, args, error, static_cast<uint64_t>(i));
      ASSERT_EQ(error, "") << ToText(trace) << ToText(kernel->run);
      for (size_t e = 0; e < want.size(); ++e)
        ASSERT_NEAR(got[e], want[e], 1e-4 * (1 + std::abs(want[e]))) << e << ToText(trace) << ToText(kernel->run);
    }
    EXPECT_GT(lowered, draws / 2) << sketch.name;
    EXPECT_EQ(barriers > 0, tiled) << sketch.name;
    EXPECT_EQ(async > 0, tiled && target.has_async_copies) << sketch.name;
  }
}

void CheckDraws(const PrimFunc& program, int draws, bool tiled) {
  CheckDrawsFor(Gpu(), program, draws, tiled);
  CheckDrawsFor(GpuWithAsyncCopies(), program, draws, tiled);
}

TEST(GpuSketches, ProductsAreTiled) {
  EXPECT_EQ(Refusal(test::Product(64, 96, 32), "dense"), "");
  EXPECT_EQ(Refusal(test::Products(3, 20, 24, 16), "products"), "");
  EXPECT_EQ(Refusal(test::ConvBiasRelu(8, 8, 8, 16, 3, {.pad = {1, 1, 1, 1}}), "conv"), "");
  CheckDraws(test::Product(64, 96, 32), 4, true);
  CheckDraws(test::Product(37, 50, 24), 6, true);
  CheckDraws(test::Products(3, 20, 24, 16), 3, true);
  CheckDraws(test::Dense(33, 40, 20), 3, true);
}

// Where vectors fit, no draw has conflicts of banks, and all global accesses use whole sectors.
TEST(GpuSketches, WarpsAccessMemorySideBySide) {
  const PrimFunc program = test::Product(256, 256, 64);
  Rng rng(7);
  for (const Sketch& sketch : GenerateSketches(program, GpuWithAsyncCopies()).value()) {
    for (int i = 0; i < 30; ++i) {
      const Trace trace = Decide(sketch, DrawDecisions(sketch, rng));
      Result<LoweredKernel> kernel = Lower(Replay(program, trace)->func(), GpuWithAsyncCopies());
      if (!kernel.ok()) continue;
      // Rows of one vector are half of a sector.
      const bool halves = ToText(trace).find("dense_step = 1\n") != std::string::npos;
      for (const WarpAccess& access : WarpAccessesOf(kernel->run.body)) {
        EXPECT_EQ(access.conflicts, 0) << access.buffer << ToText(trace);
        EXPECT_TRUE(halves || access.sectors == access.least_sectors) << access.buffer << ToText(trace);
      }
    }
  }
}

TEST(GpuSketches, ConvolutionsAreTiled) {
  CheckDraws(test::ConvBiasRelu(8, 8, 8, 16, 3, {.pad = {1, 1, 1, 1}}), 4, true);
  CheckDraws(test::ConvBiasRelu(7, 5, 3, 20, 3, {.stride = {2, 2}, .pad = {1, 1, 1, 1}}), 4, true);
}

TEST(GpuSketches, OtherBlocksGetAThreadForEachElement) {
  EXPECT_EQ(Refusal(test::RowSums(9, 12), "sum"), "it is no product of two operands");
  CheckDraws(test::Softmax({7, 19}), 1, false);
  CheckDraws(test::Transposed({5, 9}, {1, 0}), 1, false);
}

// A row is one thread's, and so is the memory that sorting it takes; so are all updates of an element.
TEST(GpuSketches, ProgramsAndScatteringComputeTheSame) {
  CheckDraws(test::BestOfRows(9, 30, 4), 1, false);
  CheckDraws(test::AddedRows(7, 5, 40, false), 1, false);
  CheckDraws(test::AddedRows(7, 5, 40, true), 1, false);
  CheckDraws(test::GatheredSums(8, 5, 9, 4), 1, false);
}

}  // namespace
}  // namespace autotune
