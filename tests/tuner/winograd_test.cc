// Every schedule of a Winograd convolution computes the same bits as the unscheduled program, interpreted and compiled,
// since no schedule reorders the sums.
#include "topi/winograd.h"

#include <gtest/gtest.h>

#include <set>

#include "ir/text.h"
#include "schedule/replay.h"
#include "te/create_prim_func.h"
#include "tests/codegen/kernel.h"
#include "tests/draws.h"
#include "tests/tuner/programs.h"
#include "topi/elementwise.h"
#include "tuner/rule/rule.h"
#include "tuner/search.h"

namespace autotune {
namespace {

using test::TestTarget;

struct Layer {
  topi::Shape data;
  int64_t oc;
  topi::Shape pad = {1, 1, 1, 1};
  topi::WinogradTiling tiling;
  bool relu = true;
};

// Returns winograd(data, weight) + bias, with relu if the layer has one.
PrimFunc Make(const Layer& l) {
  te::Tensor data = te::Placeholder("data", l.data), weight = te::Placeholder("weight", {3, 3, l.data[3], l.oc});
  te::Tensor bias = te::Placeholder("bias", {l.oc});
  te::Tensor out = topi::Conv2dWinograd("conv", data, weight, {.pad = l.pad}, l.tiling);
  if (l.relu) out = topi::Relu("relu", topi::Add("add", out, bias));
  std::vector<te::TensorParam> params = {{data, ParamRole::kInput}, {weight, ParamRole::kConstant}};
  if (l.relu) params.push_back({bias, ParamRole::kConstant});
  params.push_back({out, ParamRole::kOutput});
  return te::CreatePrimFunc("winograd", params, {.use_fma = true});
}

std::vector<Layer> Layers() {
  return {
      {{1, 8, 8, 16}, 16, {1, 1, 1, 1}, {4, 0, 0}},         // one group
      {{2, 7, 5, 16}, 24, {1, 1, 1, 1}, {4, 0, 0}},         // a batch, with tails
      {{1, 13, 9, 16}, 16, {1, 1, 1, 1}, {4, 2, 1}},        // groups that overshoot
      {{2, 8, 12, 8}, 16, {0, 2, 1, 0}, {4, 1, 3}, false},  // asymmetric padding, no epilogue
      {{1, 6, 6, 11}, 13, {0, 0, 0, 0}, {4, 0, 0}},         // the channels are not a multiple of the lanes
      {{1, 9, 10, 16}, 20, {1, 1, 1, 1}, {2, 2, 2}},        // tiles of 2 x 2 outputs, in groups of 2 x 2
      {{1, 4, 4, 16}, 16, {1, 1, 1, 1}, {2, 0, 0}, false},  // tiles of 2 x 2 outputs, no epilogue
  };
}

// Returns small integers with one large pixel, so that some tiles are tame and others are not.
std::vector<InterpArray> Inputs(const PrimFunc& func, uint64_t seed) {
  std::vector<InterpArray> args = SmallIntegers(func, seed);
  args[0].data[0] = 1e6;
  return args;
}

TEST(Winograd, SchedulesComputeTheSame) {
  for (const Layer& layer : Layers()) {
    PrimFunc func = Make(layer);
    std::vector<InterpArray> args = Inputs(func, 3), want = args;
    ASSERT_TRUE(Interpret(func, want).ok());
    auto sketches = GenerateSketches(func, TestTarget());
    ASSERT_TRUE(sketches.ok()) << sketches.error().Text() << ToText(func);
    ASSERT_EQ(sketches->size(), 1u);
    const Sketch& sketch = (*sketches)[0];
    EXPECT_EQ(sketch.name, layer.tiling.rows ? "conv_product:groups" : "conv_product:whole");
    Rng rng(11 + test::DrawSeed());
    for (int i = 0; i < (test::DrawsAll() ? 3 : 1); ++i) {
      Trace trace = Decide(sketch, DrawDecisions(sketch, rng));
      Result<Schedule> schedule = Replay(func, trace);
      ASSERT_TRUE(schedule.ok()) << schedule.error().Text() << ToText(trace);
      std::vector<InterpArray> got = args;
      Status status = Interpret(schedule->func(), got, {.order_seed = 3});
      ASSERT_TRUE(status.ok()) << status.error().Text() << ToText(trace) << ToText(schedule->func());
      ASSERT_EQ(got.back().data, want.back().data) << ToText(trace) << ToText(schedule->func());
    }
  }
}

TEST(Winograd, CompiledSchedulesComputeTheSame) {
  for (const Layer& layer : Layers()) {
    PrimFunc func = Make(layer);
    std::vector<InterpArray> args = Inputs(func, 4), want = args;
    ASSERT_TRUE(Interpret(func, want).ok());
    auto sketches = GenerateSketches(func, Cpu());
    ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
    Rng rng(12);
    int built_some = 0;
    for (int i = 0; i < 60 && built_some < 2; ++i) {
      Decisions decisions = DrawDecisions((*sketches)[0], rng);
      if (!std::isfinite(DraftSeconds((*sketches)[0], decisions, Cpu()))) continue;
      Trace trace = Decide((*sketches)[0], decisions);
      Result<Schedule> schedule = Replay(func, trace);
      ASSERT_TRUE(schedule.ok()) << schedule.error().Text();
      auto built = Build(schedule->func());
      if (!built.ok()) {
        EXPECT_NE(built.error().Text().find("rejected"), std::string::npos) << built.error().Text() << ToText(trace);
        continue;
      }
      ++built_some;
      std::vector<InterpArray> got = args;
      Status ran = autotune::Run(*built, func, got);
      ASSERT_TRUE(ran.ok()) << ran.error().Text();
      ASSERT_EQ(got.back().data, want.back().data) << ToText(trace);
    }
    EXPECT_EQ(built_some, 2);
  }
}

// A block with two readers stays a separate stage, and the transform before it is not divided into groups.
TEST(Winograd, AnEpilogueReadTwice) {
  te::Tensor data = te::Placeholder("data", {1, 8, 8, 16}), weight = te::Placeholder("weight", {3, 3, 16, 16});
  te::Tensor conv = topi::Conv2dWinograd("conv", data, weight, {.pad = {1, 1, 1, 1}}, {4, 0, 0});
  te::Tensor out = topi::Add("add", topi::Relu("relu", conv), topi::ApplyOp("abs", Op::kAbs, conv));
  PrimFunc func = te::CreatePrimFunc(
      "f", {{data, ParamRole::kInput}, {weight, ParamRole::kConstant}, {out, ParamRole::kOutput}}, {.use_fma = true});
  std::vector<InterpArray> args = SmallIntegers(func, 3), want = args;
  ASSERT_TRUE(Interpret(func, want).ok());
  auto sketches = GenerateSketches(func, TestTarget());
  ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
  ASSERT_EQ(sketches->size(), 1u);
  Rng rng(2);
  Result<Schedule> schedule = Replay(func, Decide((*sketches)[0], DrawDecisions((*sketches)[0], rng)));
  ASSERT_TRUE(schedule.ok()) << schedule.error().Text();
  std::vector<InterpArray> got = args;
  ASSERT_TRUE(Interpret(schedule->func(), got).ok());
  EXPECT_EQ(got.back().data, want.back().data);
}

TEST(Winograd, DraftPrefersItWhereItPaysAndKnowsTheRegisterFile) {
  auto best = [&](const PrimFunc& func, int& infinite) {
    auto sketches = GenerateSketches(func, TestTarget());
    EXPECT_TRUE(sketches.ok()) << sketches.error().Text();
    Rng rng(1);
    double least = std::numeric_limits<double>::infinity();
    for (const Sketch& sketch : *sketches) {
      for (int i = 0; i < 300; ++i) {
        double seconds = DraftSeconds(sketch, DrawDecisions(sketch, rng), TestTarget());
        infinite += !std::isfinite(seconds);
        least = std::min(least, seconds);
      }
    }
    return least;
  };
  int infinite = 0;
  double direct = best(test::ConvBiasRelu(56, 56, 64, 64, 3, {.pad = {1, 1, 1, 1}}), infinite);
  infinite = 0;
  double fast = best(Make({{1, 56, 56, 64}, 64, {1, 1, 1, 1}, {4, 2, 7}}), infinite);
  EXPECT_LT(fast, direct);
  EXPECT_GT(infinite, 0);
  // With few tiles, the weights dominate, and Winograd's weights are four times as large.
  direct = best(test::ConvBiasRelu(4, 4, 512, 512, 3, {.pad = {1, 1, 1, 1}}), infinite);
  fast = best(Make({{1, 4, 4, 512}, 512, {1, 1, 1, 1}, {4, 0, 0}}), infinite);
  EXPECT_GT(fast, direct);
}

// Untried algorithms come first: one schedule of each algorithm whose draft score is not much worse.
TEST(Winograd, EachAlgorithmIsTriedOnce) {
  auto tried = [](int64_t size, int64_t channels) {
    TuneTask task =
        test::MakeTask("conv", test::ConvBiasRelu(size, size, channels, channels, 3, {.pad = {1, 1, 1, 1}}));
    for (int64_t tile : {2, 4})
      task.alternatives.push_back(
          {"winograd", Make({{1, size, size, channels}, channels, {1, 1, 1, 1}, {tile, 0, 0}})});
    TaskSpace space = TaskSpace::Make(task, TestTarget()).value();
    std::set<int> alternatives;
    for (const Proposal& proposal : MakeEvolutionarySearch(space, nullptr, 1)->Propose(4).value())
      alternatives.insert(space.sketches[proposal.sketch].alternative);
    return alternatives;
  };
  EXPECT_EQ(tried(28, 64), (std::set<int>{0, 1, 2}));
  EXPECT_EQ(tried(2, 512).count(2), 0u);
}

}  // namespace
}  // namespace autotune
