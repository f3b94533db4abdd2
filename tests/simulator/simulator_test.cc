#include "tests/simulator/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

namespace autotune {
namespace {

using testing::IsEmpty;

constexpr int64_t kDay = int64_t{24} * 3600 * 1000, kTwoHours = kDay / 12;

int64_t FromEnvironment(const char* name, int64_t usual) {
  const char* text = std::getenv(name);
  return text ? std::stoll(text) : usual;
}

TEST(Simulator, ACalmFarmMeasuresEachCandidateOnce) {
  Simulator farm({.seed = 1, .weather = kCalm, .servers = {2}, .clients = 4});
  farm.Run(kTwoHours);
  EXPECT_THAT(farm.Violations(), IsEmpty());
  EXPECT_EQ(farm.ledger().issued(), farm.ledger().answered());
  EXPECT_GE(farm.ledger().executions(), farm.ledger().issued());
}

TEST(Simulator, AFailedDeviceIsLeftUntilItPassesAProbe) {
  Simulator farm({.seed = 2, .weather = kCalm, .servers = {2}, .clients = 2, .jobs = -1});
  farm.RunFor(20000);
  farm.Befall(0, Simulator::Mishap::kDeviceFails, 10000);
  const int64_t first = farm.ledger().ExecutionsOn("server0"), second = farm.ledger().ExecutionsOn("server1");
  farm.RunFor(30000);
  EXPECT_LE(farm.ledger().ExecutionsOn("server0"), first + 1) << "the device fails in the next candidate";
  EXPECT_GT(farm.ledger().ExecutionsOn("server1"), second + 100) << "where the others go";
  farm.RunFor(30000);
  EXPECT_GT(farm.ledger().ExecutionsOn("server0"), first + 100) << "the third probe has passed";
  EXPECT_THAT(farm.ledger().violations(), IsEmpty());
}

TEST(Simulator, MishapsOfRunnersAndDevicesAreNoCandidatesFault) {
  using enum Simulator::Mishap;
  for (const Simulator::Mishap mishap : {kDeviceFails, kRunnerStopped, kRunnersStarved, kRunnerKilled, kNoRunners}) {
    Simulator farm({.seed = 3, .weather = kCalm, .servers = {2}, .clients = 3});
    for (int i = 0; i < 10; ++i) {
      farm.RunFor(2000);
      farm.Befall(i % 2, mishap, 25000);
    }
    farm.Run(kTwoHours);
    EXPECT_THAT(farm.Violations(), IsEmpty()) << static_cast<int>(mishap);
  }
}

// Under all faults the farm keeps all promises of the ledger. Each shard takes some of the seeds.
void RunSeeds(int first, int step) {
  const int64_t seeds = FromEnvironment("AUTOTUNE_SIMULATOR_SEEDS", 200);
  int64_t repeated = 0;
  std::vector<int> faults;
  for (int64_t seed = FromEnvironment("AUTOTUNE_SIMULATOR_SEED", first); seed <= seeds; seed += step) {
    Simulator farm({.seed = static_cast<uint64_t>(seed),
                    .weather = {.fault_every_ms = 3000, .forget_epoch = seed % 5 == 0},
                    .servers = seed % 2 ? std::vector<int>{3} : std::vector<int>{2, 1, 2},
                    .clients = seed % 2 ? 5 : 7});
    farm.Run(kTwoHours);
    ASSERT_THAT(farm.Violations(), IsEmpty()) << "seed " << seed;
    repeated += farm.ledger().repeats();
    faults.resize(farm.faults().size());
    std::ranges::transform(faults, farm.faults(), faults.begin(), std::plus<>());
  }
  EXPECT_GT(repeated, 0);
  if (seeds >= 100) {
    EXPECT_GT(std::ranges::min(faults), 10) << "each kind of fault has occurred";
  }
}
TEST(Seeds, Odd) { RunSeeds(1, 2); }
TEST(Seeds, Even) { RunSeeds(2, 2); }

void RunDays(uint64_t seed, double days) {
  Simulator farm({.seed = seed,
                  .weather = {.loss = 0, .longest_run_ms = 5000},
                  .servers = {4, 2},
                  .clients = 8,
                  .jobs = -1,
                  .most_candidates = 256,
                  .encoded = 16});
  farm.RunLeased(static_cast<int64_t>(days * static_cast<double>(kDay)));
  EXPECT_THAT(farm.Violations(), IsEmpty());
  const double minutes = static_cast<double>(farm.now()) / 60000;
  EXPECT_GT(static_cast<double>(farm.ledger().faults()), 1.5 * minutes) << "a fault every 30 s, in the mean";
}
TEST(Days, First) { RunDays(11, static_cast<double>(FromEnvironment("AUTOTUNE_SIMULATOR_DAYS", 10)) / 2); }
TEST(Days, Second) { RunDays(12, static_cast<double>(FromEnvironment("AUTOTUNE_SIMULATOR_DAYS", 10)) / 2); }

}  // namespace
}  // namespace autotune
