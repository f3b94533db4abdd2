#include "tuner/simulation.h"

#include <gtest/gtest.h>

#include "tests/tuner/programs.h"
#include "tests/tuner/recorded.h"

namespace autotune {
namespace {

using test::MakeTask;
using test::TestTarget;

std::shared_ptr<const RecordedDevice> Formula() {
  return RecordedDevice::Make(
             test::RecordFormula({MakeTask("conv", test::ConvBiasRelu(14, 14, 16, 32, 3, {.pad = {1, 1, 1, 1}})),
                                  MakeTask("dense", test::Dense(16, 96, 64))},
                                 TestTarget(), 300))
      .value();
}

TEST(Simulation, CurvesRiseTowardsTheBestKnown) {
  SimulationOptions options{.trials = {8, 24}, .seeds = 2};
  std::vector<SimulatedRun> runs = Simulate(Formula(), SearchVariants(), options).value();
  ASSERT_EQ(runs.size(), SearchVariants().size() * 2 * 2);
  for (const SimulatedRun& run : runs) {
    ASSERT_EQ(run.reached.size(), 2u);
    EXPECT_GT(run.reached[0], 0);
    EXPECT_GE(run.reached[1], run.reached[0]);
    EXPECT_LE(run.reached[1], 1);
  }
}

TEST(Simulation, OneSeedOneRunOnAnyNumberOfThreads) {
  std::shared_ptr<const RecordedDevice> device = Formula();
  auto reached = [&](int threads, double noise) {
    SimulationOptions options{.trials = {16}, .seeds = 2, .noise = noise, .threads = threads};
    std::vector<double> all;
    for (const SimulatedRun& run : Simulate(device, SearchVariants(), options).value()) all.push_back(run.reached[0]);
    return all;
  };
  EXPECT_EQ(reached(1, 0), reached(3, 0));
  EXPECT_EQ(reached(2, 0.1), reached(2, 0.1));
  EXPECT_NE(reached(2, 0.1), reached(2, 0));
}

// On a machine's recording (bench/oracle.cc), the search ranks above its deliberately worsened variants.
TEST(Simulation, TheSearchRanksAboveWorsenedOnesOnARecordedMachine) {
  std::shared_ptr<const RecordedDevice> device =
      RecordedDevice::Make(ReadRecording(AUTOTUNE_SOURCE_DIR "/tests/tuner/recorded.jsonl.zst").value()).value();
  std::vector<SearchVariant> variants;
  for (const SearchVariant& variant : SearchVariants()) {
    if (variant.worsened || variant.name == "evolution") variants.push_back(variant);
  }
  ASSERT_EQ(variants.size(), 3u);
  std::vector<SimulatedRun> runs = Simulate(device, variants, {.trials = {32}, .seeds = 4}).value();
  EXPECT_TRUE(WorsenedRankLast(variants, runs));
}

TEST(Simulation, AWorsenedSearchThatDoesNotRankLastIsNoticed) {
  std::vector<SearchVariant> variants = {{.name = "a"}, {.name = "b", .worsened = true}, {.name = "c"}};
  auto runs = [](double a, double b, double c) {
    return std::vector<SimulatedRun>{
        {.variant = 0, .reached = {0.1, a}}, {.variant = 1, .reached = {0.9, b}}, {.variant = 2, .reached = {0.1, c}}};
  };
  EXPECT_TRUE(WorsenedRankLast(variants, runs(0.9, 0.5, 0.8)));
  EXPECT_FALSE(WorsenedRankLast(variants, runs(0.9, 0.85, 0.8)));
  EXPECT_FALSE(WorsenedRankLast(variants, runs(0.5, 0.5, 0.5)));
}

TEST(Simulation, TheMeanIsGeometric) {
  std::vector<SimulatedRun> runs = {{.reached = {0.25}}, {.reached = {1}}, {.reached = {0}}};
  EXPECT_DOUBLE_EQ(MeanReached({&runs[0], &runs[1]}, 0), 0.5);
  EXPECT_EQ(MeanReached({&runs[0], &runs[2]}, 0), 0);
  EXPECT_EQ(MeanReached({}, 0), 0);
}

}  // namespace
}  // namespace autotune
