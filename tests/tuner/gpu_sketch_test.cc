// Sketches for GPUs. Random draws compute the same after lowering, interpreted with threads in random order, and warps
// access memory in whole sectors and without bank conflicts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ir/arithmetic.h"
#include "ir/text.h"
#include "ir/threads.h"
#include "ir/visit.h"
#include "lower/lower.h"
#include "lower/warp_accesses.h"
#include "schedule/replay.h"
#include "te/create_prim_func.h"
#include "tests/close.h"
#include "tests/draws.h"
#include "tests/ir/random_program.h"
#include "tests/lower/refusals.h"
#include "tests/lower/run_lowered.h"
#include "tests/tuner/programs.h"
#include "tests/tuner/sketch_space.h"
#include "topi/elementwise.h"
#include "tuner/defaults.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;

Target Gpu() { return Target::Parse("opencl -mtriple=x86_64-linux-gnu -max-threads=1024 -shared=48K").value(); }

// Returns why the rule does not place the block, or "".
std::string Refusal(const PrimFunc& func, const std::string& block, SketchRule* rule = GpuTilingRule) {
  const Target gpu = Gpu();
  SketchBuilder s(func, gpu);
  const std::vector<BlockView> blocks = s.Blocks();
  const BlockView* view = FindBlock(blocks, block);
  if (!view) return "there is no block " + block;
  Status placed = rule(s, *view, 0);
  return placed.ok() ? "" : placed.error().Text();
}

Target GpuWithAsyncCopies() { return Target::Parse("cuda -arch=sm_80 -mtriple=x86_64-linux-gnu").value(); }

bool HasAsyncStores(const Stmt& s) {
  bool found = false;
  Walk(s, [&](const Stmt& x) { return found |= IsAsyncStore(x), !found; });
  return found;
}

// Expects that the names of all sketches contain `part`, and that random draws compute the same. With a thread for each
// element, or without a GPU rule (an empty `part`), the programs have no barriers.
void CheckDrawsFor(const Target& target, const PrimFunc& program, int draws, const std::string& part) {
  const bool tiled = part == ":gpu_tiles";
  std::vector<InterpArray> args = test::RandomArgs(program, 3);
  std::string error;
  const std::vector<double> want = RunLowered(program, Lower(program, test::TestTarget()).value(), args, error);
  ASSERT_EQ(error, "");
  Rng rng(5);
  for (const Sketch& sketch : GenerateSketches(program, target).value()) {
    EXPECT_THAT(sketch.name, HasSubstr(part));
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
      ASSERT_EQ(test::Difference(got, want), "") << ToText(trace) << ToText(kernel->run);
    }
    EXPECT_GT(lowered, draws / 2) << sketch.name;
    EXPECT_EQ(barriers > 0, !part.empty() && part != ":gpu_elements") << sketch.name;
    EXPECT_EQ(async > 0, tiled && target.has_async_copies) << sketch.name;
  }
}

void CheckDraws(const PrimFunc& program, int draws, const std::string& part) {
  static size_t number = 0;
  if (test::IsDrawn(number, 2)) CheckDrawsFor(Gpu(), program, draws, part);
  if (test::IsDrawn(++number, 2)) CheckDrawsFor(GpuWithAsyncCopies(), program, draws, part);
}

TEST(GpuSketches, ProductsAreTiled) {
  EXPECT_EQ(Refusal(test::Product(64, 96, 32), "dense"), "");
  EXPECT_EQ(Refusal(test::Products(3, 20, 24, 16), "products"), "");
  EXPECT_EQ(Refusal(test::ConvBiasRelu(8, 8, 8, 16, 3, {.pad = {1, 1, 1, 1}}), "conv"), "");
  EXPECT_EQ(Refusal(test::ScalarProduct(8), "sum"), "there are no rows");
  CheckDraws(test::Product(64, 96, 32), 8, ":gpu_tiles");
  CheckDraws(test::Product(37, 50, 24), 8, ":gpu_tiles");
  CheckDraws(test::Products(3, 20, 24, 16), 8, ":gpu_tiles");
  CheckDraws(test::Dense(33, 40, 20), 8, ":gpu_tiles");
}

// If rows consist of whole vectors, no draw has bank conflicts, and all global accesses use whole sectors.
TEST(GpuSketches, WarpsAccessMemorySideBySide) {
  for (const PrimFunc& program : {test::Product(256, 256, 64), test::Product(64, 64, 128)}) {
    Rng rng(7);
    for (const Sketch& sketch : GenerateSketches(program, GpuWithAsyncCopies()).value()) {
      for (int i = 0; i < 30; ++i) {
        const Trace trace = Decide(sketch, DrawDecisions(sketch, rng));
        Result<LoweredKernel> kernel = Lower(Replay(program, trace)->func(), GpuWithAsyncCopies());
        if (!kernel.ok()) continue;
        // A row of a single vector of 16 bytes is half a sector.
        const bool halves = ToText(trace).find("_step = 1\n") != std::string::npos;
        for (const WarpAccess& access : WarpAccessesOf(kernel->run.body)) {
          // Once per tile, slices leave partial sums in single columns, whose rows are shorter than all banks.
          const bool once = access.buffer == Name("dense_slices") && access.bytes == 4;
          EXPECT_LE(access.conflicts, once ? 1 : 0) << access.buffer << ToText(trace);
          EXPECT_TRUE(halves || access.sectors == access.least_sectors) << access.buffer << ToText(trace);
        }
      }
    }
  }
}

TEST(GpuSketches, ConvolutionsAreTiled) {
  EXPECT_EQ(Refusal(test::ConvChannelsFirst({1, 8, 6, 8}, {4, 8, 3, 3}, {.pad = {1, 1, 1, 1}}), "conv"), "");
  CheckDraws(test::ConvBiasRelu(8, 8, 8, 16, 3, {.pad = {1, 1, 1, 1}}), 4, ":gpu_tiles");
  CheckDraws(test::ConvBiasRelu(7, 5, 3, 20, 3, {.stride = {2, 2}, .pad = {1, 1, 1, 1}}), 4, ":gpu_tiles");
}

// Winograd's transforms stay separate blocks, and tiles copy the transforms' results, so the transform of the weights
// can run in `prepare`. Padding is inlined into the copies.
TEST(GpuSketches, TilesDoNotRepeatTransforms) {
  const auto blocks = [](const PrimFunc& program) {
    const Sketch sketch = GenerateSketches(program, GpuWithAsyncCopies()).value().at(0);
    Rng rng(3);
    return ViewBlocks(Replay(program, Decide(sketch, DrawDecisions(sketch, rng)))->func());
  };
  const topi::ConvAttrs same = {.pad = {1, 1, 1, 1}};
  const PrimFunc transformed = test::ConvBiasRelu(8, 8, 8, 16, 3, same, "winograd4_whole");
  for (topi::WinogradStage stage : {topi::WinogradStage::kData, topi::WinogradStage::kWeight}) {
    EXPECT_TRUE(std::ranges::any_of(blocks(transformed), [&](const BlockView& b) { return b.winograd == stage; }));
  }
  EXPECT_EQ(FindBlock(blocks(test::ConvBiasRelu(8, 8, 8, 16, 3, same)), "conv_pad"), nullptr);
  CheckDraws(transformed, 3, ":gpu_tiles");
}

// Blocks that no other rule places have a thread for each result: short rows and windows, whose sums stay in registers,
// transposes of small matrices, gathers.
TEST(GpuSketches, OtherBlocksGetAThreadForEachElement) {
  EXPECT_EQ(Refusal(test::RowSums(9, 12), "sum"), "the block is not a product of two operands");
  EXPECT_EQ(Refusal(test::RowSums(9, 12), "sum", GpuElementsRule), "");
  CheckDraws(test::RowSums(9, 12), 3, ":gpu_elements");
  CheckDraws(test::Softmax({7, 19}), 2, ":gpu_elements");
  CheckDraws(test::Transposed({5, 9}, {1, 0}), 2, ":gpu_elements");
  CheckDraws(test::MaxPool({1, 9, 7, 12}, 3, 2), 8, ":gpu_elements");
  CheckDraws(test::MaxPool({1, 6, 8, 5}, 2, 2), 2, ":gpu_elements");
  CheckDraws(test::Joined({3, 5, 8}, {3, 5, 12}, 2), 3, ":gpu_elements");
  CheckDraws(test::Joined({3, 5}, {2, 5}, 0), 3, ":gpu_elements");
  CheckDraws(test::Gathered({20, 12}, 7), 3, ":gpu_elements");
  EXPECT_EQ(Refusal(test::BestOfRows(9, 30, 4), "top", GpuElementsRule), "the block is a program of its own");
}

// In a depthwise convolution no operand is shared along the channels, so a thread computes vectors of channels.
TEST(GpuSketches, WindowsOfOneChannelAreNoProducts) {
  const PrimFunc depthwise = test::ConvBiasRelu(9, 7, 16, 16, 3, {.pad = {1, 1, 1, 1}, .groups = 16});
  EXPECT_EQ(Refusal(depthwise, "conv"), "no operand is shared by the columns");
  EXPECT_EQ(Refusal(test::ConvBiasRelu(9, 7, 16, 16, 3, {.pad = {1, 1, 1, 1}}), "conv"), "");
  CheckDraws(depthwise, 3, ":gpu_elements");
  CheckDraws(test::ConvBiasRelu(9, 7, 6, 6, 5, {.stride = {2, 2}, .pad = {2, 2, 2, 2}, .groups = 6}), 2,
             ":gpu_elements");
}

// All passes over a row are one kernel. The cases cover rows in registers, rows in shared memory, vectors of 16 bytes,
// single elements, sums only, row counts that blocks of threads do not divide, and row lengths that threads do not
// divide.
TEST(GpuSketches, RowsAreOneKernel) {
  const auto kernels = [](const PrimFunc& program) {
    const Sketch sketch = GenerateSketches(program, Gpu()).value().at(0);
    Rng rng(3);
    const Schedule schedule = Replay(program, Decide(sketch, DrawDecisions(sketch, rng))).value();
    return schedule.func().body.As<Seq>() ? schedule.func().body.As<Seq>()->stmts.size() : 1;
  };
  EXPECT_EQ(kernels(test::Softmax({30, 1000})), 1);
  EXPECT_GT(kernels(test::Softmax({30, 40})), 1) << "short rows must not become one kernel";
  EXPECT_EQ(Refusal(test::Softmax({30, 40}), "softmax_max_lanes", GpuRowsRule),
            "the rows are too short, or have too many lanes");
  EXPECT_EQ(Refusal(test::Product(64, 32, 96), "dense", GpuRowsRule), "an operand is used several times");
  CheckDraws(test::Softmax({7, 1000}), 3, "gpu_rows");
  CheckDraws(test::Softmax({2, 3, 197}), 3, "gpu_rows");
  CheckDraws(test::Softmax({2, 8200}), 1, "gpu_rows");
  CheckDraws(test::CenteredSquares(5, 768), 3, "gpu_rows");
  CheckDraws(test::RowSums(20, 512), 4, "gpu_rows");
}

// The threads of a warp access rows in adjacent vectors of 16 bytes, without bank conflicts.
TEST(GpuSketches, WarpsAccessRowsSideBySide) {
  for (const PrimFunc& program : {test::Softmax({64, 1024}), test::CenteredSquares(32, 768)}) {
    const Sketch sketch = GenerateSketches(program, GpuWithAsyncCopies()).value().at(0);
    Rng rng(7);
    for (int i = 0; i < 6; ++i) {
      const Trace trace = Decide(sketch, DrawDecisions(sketch, rng));
      const LoweredKernel kernel = Lower(Replay(program, trace)->func(), GpuWithAsyncCopies()).value();
      int global = 0;
      for (const WarpAccess& access : WarpAccessesOf(kernel.run.body)) {
        EXPECT_EQ(access.conflicts, 0) << access.buffer << ToText(trace);
        EXPECT_EQ(access.sectors, access.least_sectors) << access.buffer << ToText(trace);
        if (access.shared) continue;
        ++global;
        EXPECT_EQ(access.bytes, 16) << access.buffer << ToText(trace);
      }
      EXPECT_GT(global, 2);
    }
  }
}

// The threads of a block share the steps of sums with few results. Cases: columns with and without vectors, a prime
// length, several dimensions, an epilogue, a sum over all elements, products of one row and of several rows.
TEST(GpuSketches, ThreadsShareLongSums) {
  EXPECT_EQ(Refusal(test::ColumnSums({512, 48}, {0}), "sum", GpuSumsRule), "");
  EXPECT_EQ(Refusal(test::ColumnSums({9, 48}, {0}), "sum", GpuSumsRule), "the sum has few steps");
  EXPECT_EQ(Refusal(test::ColumnSums({16, 1 << 20}, {0}), "sum", GpuSumsRule),
            "one thread for each result fills the GPU");
  EXPECT_EQ(Refusal(test::Product(9, 64, 64), "dense", GpuSumsRule), "a tile of registers reads operands less often");
  CheckDraws(test::ColumnSums({512, 48}, {0}), 3, ":gpu_sums");
  CheckDraws(test::ColumnSums({127, 33}, {0}), 3, ":gpu_sums");
  CheckDraws(test::ColumnSums({2, 7, 7, 20}, {1, 2}), 3, ":gpu_sums");
  CheckDraws(test::SumOfSquares({160, 40}, {0}), 3, ":gpu_sums");
  CheckDraws(test::SumOfSquares({200, 64}, {0, 1}), 3, ":gpu_sums");
  CheckDraws(test::Product(1, 72, 96), 3, ":gpu_sums");
  CheckDraws(test::Product(5, 33, 64), 3, ":gpu_sums");
  CheckDraws(test::Products(3, 2, 24, 64), 3, ":gpu_sums");
}

// Returns the number of sketches whose names contain `part`.
int64_t SketchesWith(const std::string& part, const PrimFunc& program) {
  const std::vector<Sketch> sketches = GenerateSketches(program, GpuWithAsyncCopies()).value();
  return std::ranges::count_if(sketches, [&](const Sketch& s) { return s.name.find(part) != s.name.npos; });
}

// Products with few results and a long sum have additional sketches: some cut the sum into parts, others let the
// threads of a block share it.
TEST(GpuSketches, LongSumsOfProductsAreCut) {
  EXPECT_EQ(SketchesWith(":gpu_parts", test::Product(64, 64, 120)), 0) << "the sum is short";
  EXPECT_EQ(SketchesWith(":gpu_parts", test::Product(1024, 1024, 1024)), 0) << "the tiles fill the GPU";
  const int64_t parts = SketchesWith(":gpu_slices dense:gpu_parts", test::Product(64, 64, 4096));
  EXPECT_EQ(SketchesWith(":gpu_parts", test::Product(64, 64, 4096)) - parts, 3) << "the number of parts is chosen";
  EXPECT_EQ(parts, 5) << "parts of 64 steps are cut into two slices, not into four";
  EXPECT_EQ(SketchesWith(":gpu_parts", test::Product(64, 64, 128)), 2) << "half as many parts as two are none";
  EXPECT_EQ(SketchesWith(":gpu_slices", test::Product(64, 64, 60)), 0) << "the sum is short";
  EXPECT_EQ(SketchesWith(":gpu_slices", test::Product(1024, 1024, 1024)), 0) << "the tiles fill the GPU";
  EXPECT_EQ(SketchesWith(":gpu_slices", test::Product(64, 64, 4096)) - parts, 2) << "the number of slices is chosen";
  EXPECT_EQ(SketchesWith(":gpu_slices", test::Product(64, 64, 200)), 1) << "four do not divide the vectors of the sum";
}

// Cases: tiles that exceed the rows and columns, an epilogue, the windows of an image.
TEST(GpuSketches, CutSumsOfProductsAreRight) {
  for (const auto& [block, program] : {std::pair("dense", test::Dense(10, 40, 128)),
                                       std::pair("conv", test::ConvBiasRelu(4, 5, 32, 16, 3, {.pad = {1, 1, 1, 1}}))}) {
    EXPECT_GE(SketchesWith(":gpu_parts", program), 1) << program.name;
    const int64_t both = SketchesWith(":gpu_slices " + std::string(block) + ":gpu_parts", program);
    EXPECT_EQ(SketchesWith(":gpu_slices", program) - both, 2) << program.name;
    EXPECT_GE(both, 1) << program.name;
    CheckDraws(program, 6, ":gpu_tiles");
  }
}

// Returns the candidates for the groups of rows of a thread, in the first sketch whose name contains `part`.
std::vector<int64_t> GroupsOfRows(const PrimFunc& program, const std::string& part) {
  for (const Sketch& sketch : GenerateSketches(program, GpuWithAsyncCopies()).value()) {
    if (sketch.name.find(part) == sketch.name.npos) continue;
    return sketch.knobs[static_cast<size_t>(sketch.stages.at(0).m_knob)].candidates;
  }
  return {};
}

// A thread may have any number of rows, so that the tiles of few results are as many as the compute units. With slices,
// all threads of a block add up the columns of its tile. If these are no whole vectors, they add up its rows, which the
// slices must divide then. Products of many results have large tiles only.
TEST(GpuSketches, FewResultsHaveTilesOfAllHeights) {
  const std::vector<int64_t> all = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(GroupsOfRows(test::Product(196, 64, 512), "dense:gpu_tiles"), all);
  EXPECT_EQ(GroupsOfRows(test::Product(196, 64, 512), ":gpu_slices"), all);
  EXPECT_EQ(GroupsOfRows(test::Product(196, 66, 512), ":gpu_slices"), (std::vector<int64_t>{2, 4, 6, 8}));
  EXPECT_EQ(GroupsOfRows(test::Product(4096, 4096, 512), "dense:gpu_tiles"), std::vector<int64_t>{8});
  CheckDraws(test::Product(40, 64, 128), 4, ":gpu_tiles");
}

// Shared memory holds one piece of the sum for each stage, also if tiles exceed the rows. So each schedule that the
// draft score finds small enough can be lowered.
TEST(GpuSketches, TilesBeyondTheRowsHoldOnePiece) {
  for (const PrimFunc& program :
       {test::Product(200, 64, 2048), test::ConvBiasRelu(7, 7, 256, 64, 3, {.pad = {1, 1, 1, 1}})}) {
    Rng rng(3);
    int small = 0;
    for (const Sketch& sketch : GenerateSketches(program, GpuWithAsyncCopies()).value()) {
      for (int i = 0; i < 4; ++i) {
        const Decisions decisions = DrawDecisions(sketch, rng);
        const Result<LoweredKernel> kernel =
            Lower(Replay(program, Decide(sketch, decisions))->func(), GpuWithAsyncCopies());
        if (std::isfinite(DraftSeconds(sketch, decisions, GpuWithAsyncCopies()))) {
          ++small;
          EXPECT_TRUE(kernel.ok()) << kernel.error().Text() << ToText(Decide(sketch, decisions));
        }
      }
    }
    EXPECT_GT(small, 10) << program.name;
  }
}

// Blocks of threads are narrower than eight vectors only where wider ones leave compute units idle.
TEST(GpuSketches, SumsOfFewColumnsHaveNarrowBlocks) {
  const auto fewest = [](const PrimFunc& program) {
    const Sketch whole = GenerateSketches(program, GpuWithAsyncCopies()).value().back();  // the sum is not cut
    return whole.knobs[static_cast<size_t>(whole.stages.at(0).n_knob)].candidates.front();
  };
  EXPECT_EQ(fewest(test::Product(1, 1000, 2048)), 2) << "two vectors are a sector";
  EXPECT_EQ(fewest(test::Product(1, 999, 2048)), 8) << "eight elements are a sector";
  EXPECT_EQ(fewest(test::Product(1, 1 << 17, 2048)), 8) << "wide blocks fill the GPU";
}

// The threads of a warp read neighbouring vectors, and enough threads run to fill the GPU.
TEST(GpuSketches, LongSumsUseTheWholeGpu) {
  for (const PrimFunc& program : {test::ColumnSums({16384, 512}, {0}), test::Product(1, 512, 16384)}) {
    const std::vector<Sketch> sketches = GenerateSketches(program, GpuWithAsyncCopies()).value();
    ASSERT_EQ(sketches.size(), 2U) << "one sketch must cut the sum into parts, and one must not";
    Rng rng(7);
    std::vector<double> seconds;  // of the best draw of each sketch
    for (const Sketch& sketch : sketches) {
      seconds.push_back(1);
      for (int i = 0; i < 30; ++i) {
        const Decisions decisions = DrawDecisions(sketch, rng);
        seconds.back() = std::min(seconds.back(), DraftSeconds(sketch, decisions, GpuWithAsyncCopies()));
        const LoweredKernel kernel =
            Lower(Replay(program, Decide(sketch, decisions))->func(), GpuWithAsyncCopies()).value();
        for (const WarpAccess& access : WarpAccessesOf(kernel.run.body)) {
          EXPECT_EQ(access.conflicts, 0) << access.buffer;
          EXPECT_EQ(access.sectors, access.least_sectors) << access.buffer;
        }
      }
    }
    EXPECT_LT(seconds[0], seconds[1]) << "parts fill the GPU";
    EXPECT_GT(seconds[0], static_cast<double>(BytesOfParams(program)) / 3.5e12)
        << "the score must not be faster than memory";
  }
}

// Transposes read and write whole sectors, through tiles in shared memory without bank conflicts. Tiles may exceed the
// matrix.
TEST(GpuSketches, TransposesGoThroughSharedMemory) {
  EXPECT_EQ(Refusal(test::Transposed({64, 20}, {1, 0}), "transpose", GpuTransposeRule),
            "the matrices are smaller than a tile");
  EXPECT_EQ(Refusal(test::Transposed({4, 64, 64}, {1, 0, 2}), "transpose", GpuTransposeRule),
            "not exactly one operand is transposed");
  EXPECT_EQ(Refusal(test::Transposed({64, 96}, {1, 0}), "transpose", GpuTransposeRule), "");
  CheckDraws(test::Transposed({64, 96}, {1, 0}), 3, ":gpu_transpose");
  CheckDraws(test::Transposed({45, 70}, {1, 0}), 3, ":gpu_transpose");
  CheckDraws(test::Transposed({3, 40, 33}, {0, 2, 1}), 3, ":gpu_transpose");
  CheckDraws(test::Transposed({33, 3, 40}, {2, 1, 0}), 3, ":gpu_transpose");
  const PrimFunc program = test::Transposed({256, 128}, {1, 0});
  const Sketch sketch = GenerateSketches(program, GpuWithAsyncCopies()).value().at(0);
  Rng rng(7);
  for (int i = 0; i < 4; ++i) {
    const Trace trace = Decide(sketch, DrawDecisions(sketch, rng));
    const LoweredKernel kernel = Lower(Replay(program, trace)->func(), GpuWithAsyncCopies()).value();
    for (const WarpAccess& access : WarpAccessesOf(kernel.run.body)) {
      EXPECT_EQ(access.conflicts, 0) << access.buffer << ToText(kernel.run);
      EXPECT_EQ(access.sectors, access.least_sectors) << access.buffer;
    }
  }
}

// An element-wise block has a thread for each vector, even if it reads one row repeatedly; with few elements, or if
// vectors would not be aligned, a thread for each element.
TEST(GpuSketches, ElementsAreMovedInVectors) {
  auto program = [](int64_t rows, int64_t columns) {
    te::Tensor x = te::Placeholder("x", {rows, columns}), row = te::Placeholder("row", {columns});
    te::Tensor y = topi::Add("y", x, row);
    return te::CreatePrimFunc("add", {{x, ParamRole::kInput}, {row, ParamRole::kInput}, {y, ParamRole::kOutput}});
  };
  // Returns the bytes of the smallest access of the default schedule.
  auto least = [&](const PrimFunc& add) {
    const TuneTask task = test::MakeTask("add", add);
    const TaskSpace space = TaskSpace::Make(task, GpuWithAsyncCopies()).value();
    const Trace trace = DefaultProposals(space, 1).at(0).trace;
    int64_t bytes = 64;
    const LoweredKernel kernel = Lower(Replay(add, trace)->func(), GpuWithAsyncCopies()).value();
    for (const WarpAccess& access : WarpAccessesOf(kernel.run.body)) bytes = std::min<int64_t>(bytes, access.bytes);
    return bytes;
  };
  EXPECT_EQ(least(program(1024, 2048)), 16);
  EXPECT_EQ(least(program(1024, 2046)), 4);
  EXPECT_EQ(least(program(3, 2048)), 4);
  CheckDraws(program(32, 64), 4, ":gpu_elements");
  CheckDraws(program(10, 40), 8, ":gpu_elements");
  CheckDraws(program(7, 13), 4, ":gpu_elements");
}

// The draft score prefers blocks of threads that fill a multiprocessor, which hide the memory's latency: a unit holds
// 32 blocks, which have too few loads in flight if each has one short row. No score is better than the memory's
// bandwidth allows.
TEST(GpuSketches, TheDraftScorePrefersBlocksThatFillAUnit) {
  const Target target = GpuWithAsyncCopies();
  const PrimFunc program = test::Softmax({262144, 64});
  const Sketch sketch = GenerateSketches(program, target).value().at(0);
  ASSERT_EQ(sketch.knobs.size(), 2U);
  const int64_t threads = sketch.knobs[0].candidates.back();
  auto seconds = [&](int64_t rows) { return DraftSeconds(sketch, {Decision{threads}, Decision{rows}}, target); };
  EXPECT_LT(seconds(8), 0.9 * seconds(1)) << "blocks of one row leave most of a multiprocessor idle";
  const double bytes = 2.0 * 262144 * 64 * 4;
  EXPECT_GT(seconds(8), bytes / 3.5e12) << "the score must not be faster than memory";
  EXPECT_LT(seconds(8), bytes / 1.5e12);
}

// One thread sorts a row, in private memory, and one thread makes all updates of an element.
TEST(GpuSketches, ProgramsAndScatteringComputeTheSame) {
  CheckDraws(test::BestOfRows(9, 30, 4), 1, "");
  CheckDraws(test::AddedRows(7, 5, 40, false), 1, "");
  CheckDraws(test::AddedRows(7, 5, 40, true), 1, "");
  CheckDraws(test::GatheredSums(8, 5, 9, 4), 1, "");
}

}  // namespace
}  // namespace autotune
