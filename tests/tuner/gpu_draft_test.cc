// The draft score of GPUs, and the default schedules that follow from it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ir/threads.h"
#include "ir/visit.h"
#include "lower/lower.h"
#include "schedule/replay.h"
#include "target/machine.h"
#include "tests/tuner/programs.h"
#include "tuner/defaults.h"

namespace autotune {
namespace {

const Target& Gpu() {
  static const Target gpu = Target::Parse("cuda -arch=sm_90 -mtriple=x86_64-linux-gnu").value();
  return gpu;
}

topi::ConvAttrs Same() { return {.pad = {1, 1, 1, 1}}; }

struct Kernel {
  int64_t blocks = 1, threads = 1;
  bool tiled = false;  // its threads wait for each other
};

std::vector<Kernel> KernelsOf(const Stmt& program) {
  std::vector<Kernel> kernels;
  Walk(program, [&](const Stmt& s) {
    const For* outermost = s.As<For>();
    if (!outermost || !IsBound(outermost->kind)) return true;
    Kernel kernel{.tiled = HasBarrier(s)};
    Walk(s, [&](const Stmt& x) {
      if (const For* loop = x.As<For>(); loop && IsBound(loop->kind))
        (IsThreadAxis(loop->kind) ? kernel.threads : kernel.blocks) *= *AsInt(loop->extent);
      return true;
    });
    kernels.push_back(kernel);
    return false;
  });
  return kernels;
}

std::vector<Kernel> DefaultKernels(const PrimFunc& program) {
  const TuneTask task = test::MakeTask(program.name.str(), program);
  const TaskSpace space = TaskSpace::Make(task, Gpu()).value();
  const Trace trace = DefaultProposals(space, 1).at(0).trace;
  return KernelsOf(Lower(Replay(program, trace)->func(), Gpu())->run.body);
}

// The default schedules of convolutions of all sizes fill the compute units, or have a warp for each part of a unit.
TEST(GpuDraft, ConvolutionsUseAllPartsOfAUnit) {
  const std::vector<PrimFunc> convolutions = {test::ConvBiasRelu(56, 56, 64, 64, 3, Same()),
                                              test::ConvBiasRelu(28, 28, 128, 128, 3, Same()),
                                              test::ConvBiasRelu(14, 14, 256, 256, 3, Same()),
                                              test::ConvBiasRelu(7, 7, 512, 512, 3, Same()),
                                              test::ConvBiasRelu(14, 14, 1024, 256, 1),
                                              test::ConvBiasRelu(7, 7, 2048, 512, 1),
                                              test::ConvBiasRelu(16, 16, 128, 64, 1),
                                              test::ConvBiasRelu(8, 8, 64, 64, 3, Same()),
                                              test::ConvBiasRelu(16, 16, 32, 64, 1),
                                              test::ConvBiasRelu(32, 32, 4, 32, 3, Same()),
                                              test::ConvChannelsFirst({1, 32, 32, 32}, {4, 32, 3, 3}, Same())};
  const GpuMachine machine = GpuMachineOf(Gpu());
  for (const PrimFunc& convolution : convolutions) {
    int tiled = 0;
    for (const Kernel& kernel : DefaultKernels(convolution)) {
      if (!kernel.tiled) continue;
      ++tiled;
      EXPECT_TRUE(kernel.blocks >= Gpu().num_cores || kernel.threads >= machine.parts * machine.warp)
          << convolution.name << ": " << kernel.blocks << " blocks of " << kernel.threads << " threads";
    }
    EXPECT_EQ(tiled, 1) << convolution.name;
  }
}

// Returns the seconds of a product in one sketch, with these numbers for the members of its first stage.
struct TileDecisions {
  int64_t step = 4, threads_m = 8, rows = 4, threads_n = 8, columns = 1, stages = 3;
};
double Seconds(const PrimFunc& product, const TileDecisions& t) {
  const TuneTask task = test::MakeTask(product.name.str(), product);
  const TaskSpace space = TaskSpace::Make(task, Gpu()).value();
  const Sketch& sketch = space.sketches.at(0);
  const StageModel& stage = sketch.stages.at(0);
  EXPECT_EQ(stage.kind, StageModel::kGpuTiled);
  Rng rng(3);
  Decisions d = DrawDecisions(sketch, rng);
  auto set = [&](int knob, int64_t value) {
    if (knob >= 0) d[static_cast<size_t>(knob)] = Decision{value};
  };
  set(stage.k_knob, t.step), set(stage.rows_knob, t.threads_m), set(stage.m_knob, t.rows);
  set(stage.row_knob, t.threads_n), set(stage.n_knob, t.columns), set(stage.stages_knob, t.stages);
  set(stage.depth_knob, stage.lanes);
  return DraftSeconds(sketch, d, Gpu());
}

// 128 blocks leave one block for each unit. If this block is one warp, it uses a quarter of the unit. Larger tiles of
// one warp are not better: they leave units without a block.
TEST(GpuDraft, OneWarpDoesNotFillAUnit) {
  const PrimFunc few = test::Product(512, 512, 512);
  const double warps4 = Seconds(few, {.threads_m = 16, .rows = 2, .threads_n = 8, .columns = 2});
  const double warps1 = Seconds(few, {.threads_m = 4, .rows = 8, .threads_n = 8, .columns = 2});
  EXPECT_GT(warps1, 1.5 * warps4);
  // With many blocks, a unit holds several of them.
  const PrimFunc many = test::Product(4096, 4096, 512);
  const double same4 = Seconds(many, {.threads_m = 16, .rows = 8, .threads_n = 8, .columns = 2});
  const double same1 = Seconds(many, {.threads_m = 4, .rows = 8, .threads_n = 8, .columns = 2});
  EXPECT_LT(same1, 1.5 * same4);
}

// The copies of a piece take the latency of memory. Few blocks with short pieces need more stages to cover it, and even
// where two stages suffice, further ones cost nothing.
TEST(GpuDraft, StagesCoverTheLatencyOfMemory) {
  const PrimFunc product = test::Product(512, 512, 4096);
  const TileDecisions tile{.threads_m = 16, .rows = 4, .threads_n = 8, .columns = 1};
  auto with = [&](int64_t stages) {
    TileDecisions t = tile;
    t.stages = stages;
    return Seconds(product, t);
  };
  EXPECT_GT(with(1), 1.2 * with(3));  // long sums have no such candidate, but the score knows it
  EXPECT_GT(with(3), with(4));
  EXPECT_TRUE(std::isinf(Seconds(product, {.step = 8, .threads_m = 16, .rows = 8, .threads_n = 32, .columns = 2})))
      << "a tile beyond the registers of a thread block must be refused";
}

// Small tiles load more operands for each multiply-add than large ones, which takes issue slots.
TEST(GpuDraft, LoadsTakeIssueSlots) {
  const PrimFunc product = test::Product(4096, 4096, 1024);
  EXPECT_GT(Seconds(product, {.threads_m = 16, .rows = 2, .threads_n = 16, .columns = 1}),
            1.2 * Seconds(product, {.threads_m = 16, .rows = 8, .threads_n = 16, .columns = 2}));
}

// If the results give each unit one small tile, several threads share the sum of a result, so that each of them can
// have a larger tile and loads less. With many results, one thread computes the sum.
TEST(GpuDraft, SlicesPayForFewResults) {
  auto best = [](const PrimFunc& product) {
    const TuneTask task = test::MakeTask(product.name.str(), product);
    const TaskSpace space = TaskSpace::Make(task, Gpu()).value();
    const Proposal proposal = DefaultProposals(space, 1).at(0);
    return space.sketches[static_cast<size_t>(proposal.sketch)].name;
  };
  EXPECT_THAT(best(test::Product(196, 1024, 256)), testing::HasSubstr(":gpu_slices"));
  EXPECT_THAT(best(test::Product(1568, 1024, 256)), Not(testing::HasSubstr(":gpu_slices")));
}

// The tiles of a convolution are about as many as the compute units, in one round, since a thread may have any number
// of rows. With powers of two there were 98 blocks for 132 units.
TEST(GpuDraft, TilesOfFewResultsFillTheUnits) {
  const std::vector<Kernel> kernels = DefaultKernels(test::ConvBiasRelu(56, 56, 64, 64, 3, Same()));
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_GE(kernels[0].blocks, Gpu().num_cores * 9 / 10);
  EXPECT_LE(kernels[0].blocks, Gpu().num_cores);
}

// The default schedule of a GPU is the lowest of its neighbourhood in the draft score, however many sketches there are.
TEST(GpuDraft, DefaultsHaveNoBetterNeighbour) {
  for (const PrimFunc& program : {test::Product(196, 1024, 512), test::ConvBiasRelu(14, 14, 256, 256, 3, Same())}) {
    const TuneTask task = test::MakeTask(program.name.str(), program);
    const TaskSpace space = TaskSpace::Make(task, Gpu()).value();
    const Proposal best = DefaultProposals(space, 1).at(0);
    const Sketch& sketch = space.sketches[static_cast<size_t>(best.sketch)];
    for (size_t knob = 0; knob < sketch.knobs.size(); ++knob) {
      for (const Decision& decision : NeighboursOf(sketch, static_cast<int>(knob), best.decisions[knob])) {
        Decisions changed = best.decisions;
        changed[knob] = decision;
        EXPECT_GE(DraftSeconds(sketch, changed, Gpu()), best.draft_seconds) << sketch.name << ", knob " << knob;
      }
    }
  }
}

// No rule leaves these blocks to lowering; programs with loops of their own are left.
TEST(GpuDraft, RulesPlaceAllButProgramsOfTheirOwn) {
  auto unbound = [](const PrimFunc& program) {
    return PredictDefault(test::MakeTask(program.name.str(), program), Gpu())->unbound_seconds;
  };
  for (const PrimFunc& program :
       {test::Transposed({5, 9}, {1, 0}), test::Transposed({1, 384, 12, 64}, {0, 2, 1, 3}), test::RowSums(9, 12),
        test::Softmax({8, 40}), test::MaxPool({1, 20, 20, 64}, 3, 2), test::Joined({8, 16}, {8, 16}, 1),
        test::Gathered({512, 256}, 64), test::Dense(384, 768, 3072),
        test::ConvBiasRelu(14, 14, 96, 96, 3, {.pad = {1, 1, 1, 1}, .groups = 96}),
        test::ColumnSums({2, 7, 7, 20}, {1, 2})})
    EXPECT_EQ(unbound(program), 0) << program.name;
  EXPECT_GT(unbound(test::BestOfRows(9, 30, 4)), 0);
}

}  // namespace
}  // namespace autotune
