#include "tuner/simulation.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/draws.h"
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

std::vector<SimulatedRun> SimulateTasks(const std::shared_ptr<const RecordedDevice>& device,
                                        const std::vector<TuneVariant>& variants, const SimulationOptions& options) {
  return Simulate(device, NetworksOfOneTask(*device), variants, options).value();
}

TEST(Simulation, CurvesRiseTowardsTheBestKnown) {
  SimulationOptions options{.trials = {8, 24}, .seeds = 2};
  std::vector<SimulatedRun> runs = SimulateTasks(Formula(), SearchVariants(), options);
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
  const std::vector<TuneVariant> variants = {SearchVariants()[0], SearchVariants()[2]};
  auto reached = [&](int threads, double noise) {
    SimulationOptions options{.trials = {16}, .seeds = 2, .noise = noise, .threads = threads};
    std::vector<double> all;
    for (const SimulatedRun& run : SimulateTasks(device, variants, options)) all.push_back(run.reached[0]);
    return all;
  };
  const std::vector<double> exact = reached(1, 0), noisy = reached(2, 0.1);
  EXPECT_EQ(exact, reached(3, 0));
  EXPECT_EQ(noisy, reached(2, 0.1));
  EXPECT_NE(noisy, exact);
}

// On a machine's recording (bench/oracle.cc), the search ranks above its deliberately worsened variants.
TEST(Simulation, TheSearchRanksAboveWorsenedOnesOnARecordedMachine) {
  if (!test::IsDrawn(0, 2)) GTEST_SKIP() << "not drawn (tests/draws.h)";
  std::shared_ptr<const RecordedDevice> device =
      RecordedDevice::Make(ReadRecording(AUTOTUNE_SOURCE_DIR "/tests/tuner/recorded.jsonl.zst").value()).value();
  std::vector<TuneVariant> variants;
  for (const TuneVariant& variant : SearchVariants()) {
    if (variant.worsened || variant.name == "evolution") variants.push_back(variant);
  }
  ASSERT_EQ(variants.size(), 3u);
  std::vector<SimulatedRun> runs = SimulateTasks(device, variants, {.trials = {32}, .seeds = 4});
  EXPECT_TRUE(WorsenedRankLast(variants, runs));
}

// The time of a network is the sum of its tasks' times, each multiplied by its weight. Random draws in turns do not
// depend on the weights. A run makes two default schedules, then 16 draws in each batch. So at the end of a batch each
// task is equally fast in all three networks.
TEST(Simulation, ANetworkIsTheSumOfItsTasks) {
  std::shared_ptr<const RecordedDevice> device = Formula();
  TuneVariant variant = SchedulerVariants()[1];
  ASSERT_EQ(variant.name, "turns");
  variant.kind = SearchKind::kRandom;
  auto reached = [&](int convs, int denses) {
    const std::vector<SimulatedNetwork> network = {
        {.name = "both", .parts = {{.task = 0, .weight = convs}, {.task = 1, .weight = denses}}}};
    return Simulate(device, network, {variant}, {.trials = {9, 17}, .seeds = 1}).value().front().reached;
  };
  constexpr int kMost = 1'000'000;
  const std::vector<double> conv = reached(kMost, 1), dense = reached(1, kMost), both = reached(3, 5);
  const std::vector<RecordedTask>& tasks = device->recording().tasks;
  const double conv_best = 3 * tasks[0].BestSeconds(), dense_best = 5 * tasks[1].BestSeconds();
  for (size_t k : {0, 1}) {
    EXPECT_NE(conv[k], dense[k]);
    const double sum = (conv_best + dense_best) / (conv_best / conv[k] + dense_best / dense[k]);
    EXPECT_NEAR(both[k], sum, 1e-4);
  }
}

TEST(Simulation, DrawnNetworksHaveHalfOfTheTasks) {
  std::shared_ptr<const RecordedDevice> device =
      RecordedDevice::Make(ReadRecording(AUTOTUNE_SOURCE_DIR "/tests/tuner/recorded.jsonl.zst").value()).value();
  const int tasks = static_cast<int>(device->tasks().size());
  const std::vector<SimulatedNetwork> networks = DrawNetworks(*device, 3, 7), more = DrawNetworks(*device, 5, 7);
  ASSERT_EQ(networks.size(), 3u);
  ASSERT_EQ(more.size(), 5u);
  for (size_t n = 0; n < networks.size(); ++n) {
    std::set<int> drawn;
    ASSERT_EQ(networks[n].parts.size(), more[n].parts.size());
    for (size_t i = 0; i < networks[n].parts.size(); ++i) {
      const SimulatedNetwork::Part& part = networks[n].parts[i];
      drawn.insert(part.task);
      EXPECT_TRUE(part.weight >= 1 && part.weight <= 16) << part.weight;
      EXPECT_EQ(part.task, more[n].parts[i].task);
      EXPECT_EQ(part.weight, more[n].parts[i].weight);
    }
    EXPECT_EQ(static_cast<int>(drawn.size()), (tasks + 1) / 2) << "tasks of a network differ";
  }
}

// The scheduler that picks the least expected gain ranks last on a recorded machine.
TEST(Simulation, TheSchedulerRanksAboveTheWorsenedOneOnARecordedMachine) {
  if (!test::IsDrawn(1, 2)) GTEST_SKIP() << "not drawn (tests/draws.h)";
  std::shared_ptr<const RecordedDevice> device =
      RecordedDevice::Make(ReadRecording(AUTOTUNE_SOURCE_DIR "/tests/tuner/recorded.jsonl.zst").value()).value();
  std::vector<SimulatedRun> runs =
      Simulate(device, DrawNetworks(*device, 2, 1), SchedulerVariants(), {.trials = {16}, .seeds = 3}).value();
  EXPECT_TRUE(WorsenedRankLast(SchedulerVariants(), runs));
}

TEST(Simulation, AWorsenedSearchThatDoesNotRankLastIsNoticed) {
  std::vector<TuneVariant> variants = {{.name = "a"}, {.name = "b", .worsened = true}, {.name = "c"}};
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
