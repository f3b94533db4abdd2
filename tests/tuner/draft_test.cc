// Tests of the draft score, of the candidates that it refuses without a replay, of features, and of replays that reuse
// a common prefix.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "costmodel/features.h"
#include "ir/text.h"
#include "ir/visit.h"
#include "schedule/replay.h"
#include "te/create_prim_func.h"
#include "tests/tuner/programs.h"
#include "topi/matmul.h"
#include "topi/pool.h"
#include "topi/winograd.h"
#include "tuner/rule/rule.h"
#include "tuner/stage_shape.h"
#include "tuner/successive_replays.h"

namespace autotune {
namespace {

using test::ConvBiasRelu;
using test::Dense;
using test::TestTarget;

// The draft score is infinite for tiles that exceed the vector registers. It knows the target's lanes and registers,
// and counts one more register for a product if the target has no multiply-add instruction.
TEST(Draft, RefusesTilesBeyondTheRegisterFile) {
  struct Case {
    const char* target;
    int64_t lanes, registers, product;
  };
  const Case cases[] = {{"llvm -mtriple=x86_64-linux-gnu -mcpu=nehalem", 4, 16, 1},
                        {"llvm -mtriple=x86_64-linux-gnu -mcpu=znver3", 8, 16, 0},
                        {"llvm -mtriple=x86_64-linux-gnu -mcpu=znver4", 16, 32, 0},
                        {"llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72", 4, 32, 0},
                        {"llvm -mtriple=riscv64-linux-gnu -mcpu=generic-rv64 -mattr=+v", 4, 32, 0},
                        {"llvm -mtriple=riscv64-linux-gnu -mcpu=generic-rv64 -mattr=+v,+zvl256b", 8, 32, 0}};
  for (const Case& c : cases) {
    Target target = Target::Parse(c.target).value();
    auto sketches = GenerateSketches(Dense(256, 256, 256), target);
    ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
    const Sketch& sketch = (*sketches)[0];
    const StageModel& s = sketch.stages[0];
    Rng rng(1);
    int finite = 0, infinite = 0;
    for (int i = 0; i < 400; ++i) {
      Decisions d = DrawDecisions(sketch, rng);
      if (s.rows_ahead_knob >= 0) d[s.rows_ahead_knob] = {{0}};
      ASSERT_EQ(d[s.n_knob].values[2] % c.lanes, 0) << c.target;
      int64_t vectors = d[s.n_knob].values[2] / c.lanes;
      int64_t wanted = d[s.m_knob].values[2] * vectors + vectors + 1 + c.product;
      bool crowded = c.registers > 16 && d[s.k_knob].values[0] > 4 && wanted > c.registers - 2;
      bool fits = wanted <= c.registers && !crowded;
      EXPECT_EQ(std::isfinite(DraftSeconds(sketch, d, target)), fits) << c.target;
      (fits ? finite : infinite)++;
    }
    EXPECT_GT(finite, 20) << c.target;
    EXPECT_GT(infinite, 20) << c.target;
  }
}

// A register tile that may begin a new row of the image, or overshoots, needs an address for each of its pixels.
TEST(Draft, KnowsTilesWithinARowOfTheImage) {
  auto sketches = GenerateSketches(ConvBiasRelu(28, 28, 16, 16, 3, {.pad = {1, 1, 1, 1}}), TestTarget());
  ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
  auto plain = std::find_if(sketches->begin(), sketches->end(),
                            [](const Sketch& s) { return s.stages[0].m_knob >= 0 && s.stages[0].rows_knob < 0; });
  ASSERT_NE(plain, sketches->end());
  EXPECT_EQ(plain->stages[0].m_image.row, 28);
  Sketch without = *plain;
  without.stages[0].m_image.row = 0;
  Rng rng(1);
  Decisions d = DrawDecisions(*plain, rng);
  d[plain->stages[0].n_knob] = {{2, 1, 8}};
  auto same = [&](const Decision& tile) {
    d[plain->stages[0].m_knob] = tile;
    return DraftSeconds(*plain, d, TestTarget()) == DraftSeconds(without, d, TestTarget());
  };
  EXPECT_TRUE(same({{28, 4, 7}}));
  EXPECT_TRUE(same({{196, 1, 4}}));
  EXPECT_FALSE(same({{131, 1, 6}}));  // crosses rows
  EXPECT_FALSE(same({{23, 5, 7}}));   // overshoots
  for (const PrimFunc& linear : {Dense(28, 64, 16), ConvBiasRelu(28, 28, 16, 16, 1)}) {
    auto products = GenerateSketches(linear, TestTarget());
    ASSERT_TRUE(products.ok());
    EXPECT_EQ((*products)[0].stages[0].m_image.row, 0);
  }
  auto strided = GenerateSketches(ConvBiasRelu(28, 28, 16, 16, 1, {.stride = {2, 2}}), TestTarget());
  ASSERT_TRUE(strided.ok());
  EXPECT_EQ((*strided)[0].stages[0].m_image.row, 14);
}

// Groups of 34 channels cut a row of 136 channels inside cache lines. The tasks of one row follow one another, and the
// score prefers as many tasks along the rows as there are cores, so that no two cores write the same row.
TEST(Draft, CoresShareNoRowsOfTheResult) {
  const PrimFunc func = ConvBiasRelu(28, 28, 136, 136, 1, {.groups = 4});
  auto sketches = GenerateSketches(func, TestTarget());
  ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
  const Sketch& sketch = (*sketches)[0];
  const StageModel& s = sketch.stages[0];
  ASSERT_EQ(s.pieces, 4);
  Rng rng(1);
  Decisions d = DrawDecisions(sketch, rng);
  auto lines = [&](const Decision& rows, const Decision& columns, StageModel stage) {
    d[s.m_knob] = rows;
    d[s.n_knob] = columns;
    return SharedLines(stage, ShapeOf(stage, d), 2, 64);
  };
  EXPECT_EQ(lines({{1, 196, 4}}, {{1, 5, 8}}, s), 784);
  EXPECT_EQ(lines({{2, 98, 4}}, {{1, 5, 8}}, s), 0);
  StageModel whole = s;
  whole.n = 32;
  EXPECT_EQ(lines({{1, 196, 4}}, {{1, 4, 8}}, whole), 0) << "pieces of whole lines";
  EXPECT_EQ(lines({{1, 196, 4}}, {{4, 1, 8}}, whole), 784);
  whole.pieces = 1;
  EXPECT_EQ(lines({{1, 196, 4}}, {{1, 4, 8}}, whole), 0) << "one task writes whole rows";

  d[s.m_knob] = {{1, 196, 4}};
  d[s.n_knob] = {{1, 5, 8}};
  const double shared = DraftSeconds(sketch, d, TestTarget());
  d[s.m_knob] = {{2, 98, 4}};
  EXPECT_LT(DraftSeconds(sketch, d, TestTarget()), shared);
  Result<Schedule> schedule = Replay(func, Decide(sketch, d));
  ASSERT_TRUE(schedule.ok()) << schedule.error().Text();
  EXPECT_NE(ToText(schedule->func()).find("conv_m_0_conv_g"), std::string::npos) << ToText(schedule->func());
}

// Padding inside the loops over tiles repeats the rows and columns that the windows of two tiles share. Dilated windows
// share many.
TEST(Draft, CountsTheReachOfDilatedWindows) {
  auto sketches =
      GenerateSketches(ConvBiasRelu(20, 20, 16, 16, 5, {.dilation = {3, 3}, .pad = {6, 6, 6, 6}}), TestTarget());
  ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
  auto sketch = std::find_if(sketches->begin(), sketches->end(), [](const Sketch& s) {
    return s.stages.size() > 1 && s.stages[0].rows_knob < 0 && s.stages[1].location_knob >= 0;
  });
  ASSERT_NE(sketch, sketches->end());
  const StageModel& s = sketch->stages[0];
  EXPECT_EQ(s.m_image.row_step, 1);
  EXPECT_EQ(s.m_image.row_reach, 12);
  EXPECT_EQ(s.m_image.column_reach, 12);
  Rng rng(1);
  Decisions d = DrawDecisions(*sketch, rng);
  d[s.m_knob] = {{100, 1, 4}};
  auto seconds = [&](int64_t location) {
    d[sketch->stages[1].location_knob] = {{location}};
    return DraftSeconds(*sketch, d, TestTarget());
  };
  EXPECT_GT(seconds(0), 1.1 * seconds(-1)) << "each of 100 tasks must pad 13 rows";
  d[s.m_knob] = {{1, 100, 4}};
  EXPECT_LT(seconds(0), 1.1 * seconds(-1)) << "a single task pads the image once";
}

// A stage inside a loop over tiles of columns is computed again for each tile.
TEST(Draft, CountsStagesInTheLoopOverColumns) {
  auto sketches =
      GenerateSketches(test::ConvChannelsFirst({1, 83, 80, 37}, {4, 83, 5, 5}, {.pad = {2, 2, 2, 2}}), TestTarget());
  ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
  auto sketch = std::ranges::find_if(*sketches, [](const Sketch& s) {
    return s.stages.size() > 1 && s.stages[1].location_knob >= 0 && !s.stages[0].n_inside;
  });
  ASSERT_NE(sketch, sketches->end());
  const StageModel &product = sketch->stages[0], &pad = sketch->stages[1];
  Rng rng(1);
  Decisions d = DrawDecisions(*sketch, rng);
  d[product.m_knob] = {{1, 1, 4}};
  d[product.n_knob] = {{1, 5, 8}};
  auto again = [&](int64_t location) {
    d[pad.location_knob] = {{location}};
    return InsideOf(pad, product, d).again;
  };
  EXPECT_EQ(again(0), 1);
  EXPECT_EQ(again(1), 5);
}

// A tile of pixels in several rows needs a general register for each pixel's address.
TEST(Draft, CountsTheAddressesOfPixelsInSeveralRows) {
  const std::string x86 = "llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -num-cores=2",
                    arm = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -num-cores=2";
  auto fits = [&](const std::string& text, int64_t width, int64_t pixels) {
    Target target = Target::Parse(text).value();
    auto sketches = GenerateSketches(ConvBiasRelu(width, width, 16, 16, 3, {.pad = {1, 1, 1, 1}}), target);
    const Sketch& sketch = (*sketches)[0];
    const StageModel& s = sketch.stages[0];
    Rng rng(1);
    Decisions d = DrawDecisions(sketch, rng);
    d[s.m_knob] = {{(width * width + pixels - 1) / pixels, 1, pixels}};
    d[s.n_knob] = {{16 / target.VectorLanes(32), 1, target.VectorLanes(32)}};
    d[s.k_knob] = {{1}};
    return std::isfinite(DraftSeconds(sketch, d, target));
  };
  EXPECT_TRUE(fits(x86, 29, 11));
  EXPECT_FALSE(fits(x86, 29, 12));
  EXPECT_TRUE(fits(x86, 24, 12)) << "the tile lies within one row";
  EXPECT_TRUE(fits(arm, 29, 12));
}

// If tiles overshoot and the next tile's rows are prefetched, each row of a tile needs two address registers: one for
// its loads and one for its prefetches.
TEST(Draft, CountsTheAddressesOfRowsThatAreAskedFor) {
  const std::string x86 = "llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -num-cores=2",
                    arm = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -num-cores=2";
  auto fits = [&](const std::string& text, int64_t rows, int64_t ahead) {
    Target target = Target::Parse(text).value();
    auto sketches = GenerateSketches(Dense(567, 13, 539, ParamRole::kInput), target);
    EXPECT_TRUE(sketches.ok()) << sketches.error().Text();
    const Sketch& sketch = (*sketches)[0];
    const StageModel& s = sketch.stages[0];
    EXPECT_GE(s.rows_ahead_knob, 0);
    Rng rng(1);
    Decisions d = DrawDecisions(sketch, rng);
    d[s.m_knob] = {{(567 + rows - 1) / rows, 1, rows}};
    d[s.n_knob] = {{16 / target.VectorLanes(32), 1, target.VectorLanes(32)}};
    d[s.k_knob] = {{1}};
    d[s.rows_ahead_knob] = {{ahead}};
    return std::isfinite(DraftSeconds(sketch, d, target));
  };
  EXPECT_TRUE(fits(x86, 5, 1));
  EXPECT_FALSE(fits(x86, 6, 1));
  EXPECT_TRUE(fits(x86, 6, 0)) << "without prefetching the next rows";
  EXPECT_TRUE(fits(x86, 9, 1)) << "nine rows per tile clamp no row";
  EXPECT_TRUE(fits(arm, 6, 1));
}

// Operands that are packed in advance are packed for each product of a batch.
TEST(Draft, CountsThePackedMatricesOfABatch) {
  auto packed = [](const PrimFunc& func) {
    auto sketches = GenerateSketches(func, TestTarget());
    EXPECT_TRUE(sketches.ok()) << sketches.error().Text();
    auto sketch = std::find_if(sketches->begin(), sketches->end(), [](const Sketch& s) {
      return s.stages[0].location_knob >= 0 && s.stages[0].rows_knob < 0;
    });
    EXPECT_NE(sketch, sketches->end());
    return *sketch;
  };
  const Sketch batch = packed(test::Products(9, 24, 72, 1408));
  EXPECT_EQ(batch.stages[0].panel_sets, 9);
  EXPECT_EQ(packed(Dense(9 * 24, 72, 1408, ParamRole::kInput)).stages[0].panel_sets, 1);
  Sketch shared = batch;
  shared.stages[0].panel_sets = 1;
  Rng rng(1);
  Decisions d = DrawDecisions(batch, rng);
  d[batch.stages[0].m_knob] = {{1, 4, 6}};
  d[batch.stages[0].n_knob] = {{5, 1, 16}};
  auto seconds = [&](const Sketch& sketch, int64_t location) {
    d[sketch.stages[0].location_knob] = {{location}};
    return DraftSeconds(sketch, d, TestTarget());
  };
  EXPECT_GT(seconds(batch, -1), 1.2 * seconds(shared, -1)) << "packing in advance must cost more for nine products";
  EXPECT_EQ(seconds(batch, 1), seconds(shared, 1)) << "packing inside the tasks must cost the same";
}

// With 31 of 32 registers in use, unrolling many steps spills. With fewer registers or fewer steps it does not.
TEST(Draft, LeavesRegistersForUnrolledSteps) {
  Target target = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -num-cores=2").value();
  auto sketches = GenerateSketches(Dense(252, 256, 256), target);
  ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
  const Sketch& sketch = (*sketches)[0];
  const StageModel& s = sketch.stages[0];
  auto fits = [&](int64_t rows, int64_t vectors, int64_t unroll) {
    Decisions d(sketch.knobs.size());
    d[s.m_knob] = {{252 / rows, 1, rows}};
    d[s.n_knob] = {{16 / vectors, 1, 16 * vectors}};
    d[s.k_knob] = {{unroll}};
    for (int knob : {s.panel_ahead_knob, s.rows_ahead_knob}) {
      if (knob >= 0) d[knob] = {{0}};
    }
    return std::isfinite(DraftSeconds(sketch, d, target));
  };
  EXPECT_TRUE(fits(14, 2, 4));
  EXPECT_FALSE(fits(14, 2, 8));
  EXPECT_TRUE(fits(12, 2, 8));
  EXPECT_FALSE(fits(14, 4, 1));
}

// Replaying each candidate from the one before gives the same result as from the start, in any order and after refused
// candidates.
TEST(SuccessiveReplays, GiveTheSameAsReplaysFromTheStart) {
  for (const PrimFunc& func : {Dense(96, 80, 64), ConvBiasRelu(9, 9, 8, 24, 3, {.pad = {1, 1, 1, 1}})}) {
    auto sketches = GenerateSketches(func, TestTarget());
    ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
    for (const Sketch& sketch : *sketches) {
      Rng rng(4);
      std::vector<Decisions> candidates;
      Decisions at = DrawDecisions(sketch, rng);
      for (int i = 0; i < 40; ++i) {
        int knob = static_cast<int>(rng.Below(static_cast<int64_t>(at.size())));
        at[knob] = MutateDecision(sketch, knob, at[knob], rng);
        candidates.push_back(at);
        if (i % 5 != 0) continue;
        candidates.push_back(at);
        candidates.back()[knob] = {-7};  // a decision that every step refuses
      }
      for (bool sorted : {false, true}) {
        if (sorted) {
          std::sort(candidates.begin(), candidates.end(), [](const Decisions& a, const Decisions& b) {
            return std::ranges::lexicographical_compare(a, b, {}, &Decision::values, &Decision::values);
          });
        }
        SuccessiveReplays replays(func, sketch);
        int refused = 0;
        for (const Decisions& decisions : candidates) {
          Trace trace = Decide(sketch, decisions);
          Result<Schedule> successive = replays.Replay(decisions, trace), whole = Replay(func, trace);
          ASSERT_EQ(successive.ok(), whole.ok()) << ToText(trace);
          if (!whole.ok()) {
            EXPECT_EQ(successive.error().Text(), whole.error().Text());
            ++refused;
            continue;
          }
          EXPECT_EQ(ToText(successive->trace()), ToText(whole->trace()));
          ASSERT_EQ(FirstMismatch(successive->func(), whole->func()), "");
        }
        EXPECT_GE(refused, 8);
      }
    }
  }
}

// Candidates that differ only in their prefetch distance have different features.
TEST(Features, SeePrefetches) {
  std::vector<PrimFunc> funcs = {ConvBiasRelu(7, 7, 256, 96, 1), test::Transposed({2048, 2048}, {1, 0}),
                                 ConvBiasRelu(112, 112, 64, 64, 3, {.pad = {1, 1, 1, 1}, .groups = 64})};
  int pairs = 0;
  for (const PrimFunc& func : funcs) {
    auto sketches = GenerateSketches(func, TestTarget());
    ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
    for (const Sketch& sketch : *sketches) {
      for (size_t knob = 0; knob < sketch.knobs.size(); ++knob) {
        const Step& step = sketch.trace[sketch.knobs[knob].step];
        const auto* choice = std::get_if<SampleCategorical>(&step);
        if (!choice || choice->results.names[0].str().find("_ahead") == std::string::npos) continue;
        Rng rng(3);
        Decisions decisions = DrawDecisions(sketch, rng);
        std::set<Features> seen;
        size_t legal = 0;
        for (int64_t ahead : choice->candidates) {
          decisions[knob] = {ahead};
          Result<Schedule> schedule = Replay(func, Decide(sketch, decisions));
          if (!schedule.ok()) continue;
          ++legal;
          seen.insert(ExtractFeatures(NestOf(schedule->func()), TestTarget()));
        }
        EXPECT_EQ(seen.size(), legal) << sketch.name << " " << choice->results.names[0].str();
        pairs += legal > 1;
      }
    }
  }
  EXPECT_GE(pairs, 4);
}

PrimFunc Winograd(int64_t size, int64_t channels) {
  te::Tensor data = te::Placeholder("data", {1, size, size, channels});
  te::Tensor weight = te::Placeholder("weight", {3, 3, channels, channels});
  te::Tensor out = topi::Conv2dWinograd("conv", data, weight, {.pad = {1, 1, 1, 1}}, {4, 0, 0});
  return te::CreatePrimFunc("winograd",
                            {{data, ParamRole::kInput}, {weight, ParamRole::kConstant}, {out, ParamRole::kOutput}},
                            {.use_fma = true});
}

PrimFunc MaxPool(int64_t size, int64_t channels) {
  te::Tensor data = te::Placeholder("data", {1, size, size, channels});
  te::Tensor out = topi::MaxPool("pool", data, {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1, 1, 1}});
  return te::CreatePrimFunc("pool", {{data, ParamRole::kInput}, {out, ParamRole::kOutput}});
}

// Returns the text of a Nest without the loops of one iteration, whose order does not affect the cost.
std::string TextOfCost(const Nest& nest) {
  std::istringstream lines(ToText(nest));
  std::string text, line;
  auto erase = [&](const std::string& part) {
    for (size_t at; (at = line.find(part)) != std::string::npos;) line.erase(at, part.size());
  };
  while (std::getline(lines, line)) {
    line.erase(0, line.find_first_not_of(' '));
    if (line.starts_with("for ") && (line + " ").find(" in 1 ") != std::string::npos) continue;
    for (const Nest::Loop& loop : nest.loops) {
      if (loop.extent == 1 && !line.starts_with("for ")) erase(" + " + loop.name.str());
    }
    text += line + "\n";
  }
  return text;
}

// For all kinds of tasks, candidates whose decisions give different programs have different features.
TEST(Features, TellCandidatesApart) {
  const std::vector<std::pair<const char*, PrimFunc>> kinds = {
      {"dense", Dense(96, 80, 64)},
      {"dense few rows", Dense(2, 1024, 512)},
      {"matmul", test::Product(96, 160, 64)},
      {"batch matmul", test::Products(4, 48, 64, 32)},
      {"conv 1x1", ConvBiasRelu(14, 14, 32, 48, 1)},
      {"conv 3x3", ConvBiasRelu(14, 14, 16, 32, 3, {.pad = {1, 1, 1, 1}})},
      {"winograd", Winograd(14, 32)},
      {"conv 3x3 stride 2", ConvBiasRelu(15, 15, 16, 32, 3, {.stride = {2, 2}, .pad = {1, 1, 1, 1}})},
      {"conv depthwise", ConvBiasRelu(28, 28, 64, 64, 3, {.pad = {1, 1, 1, 1}, .groups = 64})},
      {"conv grouped", ConvBiasRelu(14, 14, 32, 64, 3, {.pad = {1, 1, 1, 1}, .groups = 4})},
      {"max pool", MaxPool(28, 64)},
      {"softmax", test::Softmax({64, 160})},
      {"layer norm", test::CenteredSquares(64, 160)},
      {"row sums", test::RowSums(64, 160)},
      {"column sums", test::ColumnSums({64, 160}, {0})},
      {"transpose", test::Transposed({512, 384}, {1, 0})},
  };
  size_t candidates = 0;
  for (const auto& [kind, func] : kinds) {
    auto sketches = GenerateSketches(func, TestTarget());
    ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
    std::map<Features, std::string> seen;
    size_t of_kind = 0;
    for (const Sketch& sketch : *sketches) {
      Rng rng(5);
      for (int i = 0; i < 30; ++i) {
        Result<Schedule> schedule = Replay(func, Decide(sketch, DrawDecisions(sketch, rng)));
        if (!schedule.ok()) continue;
        Nest nest = NestOf(schedule->func());
        std::string text = TextOfCost(nest);
        auto [known, added] = seen.emplace(ExtractFeatures(nest, TestTarget()), text);
        EXPECT_EQ(known->second, text) << kind << ": two programs have the same features";
        of_kind += added;
      }
    }
    EXPECT_GE(of_kind, 1U) << kind;
    candidates += of_kind;
  }
  EXPECT_GT(candidates, 700U);
}

// A product in f64 needs twice the registers of one in f32.
TEST(Draft, CountsRegistersByTheSizeOfTheElements) {
  auto fits = [](DType dtype, int64_t rows, int64_t columns) {
    te::Tensor a = te::Placeholder("a", {240, 64}, dtype), b = te::Placeholder("b", {64, 256}, dtype);
    te::Tensor out = topi::MatMul("dense", a, b);
    PrimFunc func = te::CreatePrimFunc(
        "dense", {{a, ParamRole::kInput}, {b, ParamRole::kConstant}, {out, ParamRole::kOutput}}, {.use_fma = true});
    auto sketches = GenerateSketches(func, TestTarget());
    EXPECT_TRUE(sketches.ok()) << sketches.error().Text();
    const Sketch& sketch = (*sketches)[0];
    const StageModel& s = sketch.stages[0];
    Rng rng(1);
    Decisions d = DrawDecisions(sketch, rng);
    d[s.m_knob] = {{240 / rows, 1, rows}};
    d[s.n_knob] = {{256 / columns, 1, columns}};
    d[s.k_knob] = {{1}};
    return std::isfinite(DraftSeconds(sketch, d, TestTarget()));
  };
  EXPECT_TRUE(fits(DType::Float(32), 6, 16));
  EXPECT_FALSE(fits(DType::Float(64), 6, 16));
  EXPECT_TRUE(fits(DType::Float(64), 6, 8));
  EXPECT_FALSE(fits(DType::Float(32), 12, 16));
}

// A product of a few microseconds is faster on two cores, since a fork takes a fraction of a microsecond
// (bench/fork_join.cc).
TEST(Draft, SharesSmallProducts) {
  auto sketches = GenerateSketches(Dense(48, 64, 64), TestTarget());
  ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
  const Sketch& sketch = (*sketches)[0];
  const StageModel& s = sketch.stages[0];
  auto seconds = [&](int64_t tasks) {
    Decisions d(sketch.knobs.size());
    d[s.m_knob] = {{tasks, 8 / tasks, 6}};
    d[s.n_knob] = {{1, 4, 16}};
    d[s.k_knob] = {{4}};
    for (int knob : {s.panel_ahead_knob, s.rows_ahead_knob}) {
      if (knob >= 0) d[knob] = {{0}};
    }
    return DraftSeconds(sketch, d, TestTarget());
  };
  EXPECT_LT(seconds(2), seconds(1));
  EXPECT_LT(seconds(2), seconds(8)) << "each task has a cost, too";
}

// Without groups of tiles, the transforms and the products of Winograd's algorithm are parallel loops with different
// tasks, so each of two cores reads half of what the other one has written. The score prefers a group for each core.
TEST(Draft, CountsDataFromOtherCores) {
  auto best = [](const std::string& alternative, const Target& target) {
    const PrimFunc conv = ConvBiasRelu(8, 8, 64, 64, 3, {.pad = {1, 1, 1, 1}}, alternative);
    const std::vector<Sketch> sketches = GenerateSketches(conv, target).value();
    double least = std::numeric_limits<double>::infinity();
    Rng rng(1);
    for (int i = 0; i < 300; ++i) {
      least = std::min(least, DraftSeconds(sketches[0], DrawDecisions(sketches[0], rng), target));
    }
    return least;
  };
  const Target two = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -num-cores=2").value();
  EXPECT_LT(best("winograd2", two), best("winograd2_whole", two));
  EXPECT_LT(best("winograd2", two), best("winograd4_whole", two));
}

}  // namespace
}  // namespace autotune
