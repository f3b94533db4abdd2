// Parties that are stopped for longer than their peers' patience, beside many that are not, and a tracker that starts
// anew. What is lost is what the stopped party itself had, and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "rpc/rules.h"
#include "tests/simulator/simulator.h"

namespace autotune {
namespace {

using testing::IsEmpty;

constexpr int64_t kStop = 12000, kSettle = 20000, kAfter = 60000;

// A farm in which each of `holders` clients has a device, and `waiting` others wait for one. Its quantum never ends the
// turn of a client in the time that the tests take.
Simulator Farm(int holders, int waiting = 0) {
  Weather weather = kCalm;
  weather.longest_run_ms = 3000;
  return Simulator({.weather = weather,
                    .servers = {holders},
                    .clients = holders + waiting,
                    .jobs = -1,
                    .most_candidates = 256,
                    .quantum_ms = Simulator::kForever,
                    .encoded = 16});
}

class Frozen : public testing::TestWithParam<int> {
 public:
  ~Frozen() override { rpc::BreakRule(""); }
};

int64_t LossesAfterTrackerStop(int holders) {
  Simulator farm = Farm(holders);
  farm.RunFor(kSettle);
  EXPECT_EQ(farm.Holding(), holders);
  farm.Freeze(Simulator::kTracker, kStop);
  farm.RunFor(kStop + kAfter);
  EXPECT_EQ(farm.Busy(), farm.Holding());
  return farm.ledger().losses();
}
TEST_P(Frozen, AStoppedTrackerLosesNoLease) { EXPECT_EQ(LossesAfterTrackerStop(GetParam()), 0); }
TEST_P(Frozen, WithoutTheRuleAStoppedTrackerLosesLeases) {
  rpc::BreakRule("stopped-time");
  EXPECT_GT(LossesAfterTrackerStop(GetParam()), 0);
}

TEST_P(Frozen, AStoppedClientLosesItsLeaseAndNoOtherDoes) {
  Simulator farm = Farm(GetParam(), 1);
  farm.RunFor(kSettle);
  ASSERT_EQ(farm.Holding(), GetParam());
  int stopped = 0;
  while (!farm.Holds(stopped)) ++stopped;
  farm.Freeze(farm.ClientParty(stopped), kStop + 5000);
  farm.RunFor(kStop + 5000 + kAfter);
  EXPECT_EQ(farm.ledger().losses(), 1);
  EXPECT_EQ(farm.Holding(), GetParam()) << "the one that waited has the device now";
  EXPECT_FALSE(farm.Holds(stopped));
  EXPECT_THAT(farm.ledger().violations(), IsEmpty());
}

TEST_P(Frozen, AStoppedServerLosesItsLeaseAndNoOtherDoes) {
  Simulator farm = Farm(GetParam());
  farm.RunFor(kSettle);
  farm.Freeze(farm.ServerParty(GetParam() / 2), kStop);
  farm.RunFor(kStop + kAfter);
  EXPECT_EQ(farm.ledger().losses(), 1);
  EXPECT_EQ(farm.Holding(), GetParam()) << "its client has it again";
  EXPECT_THAT(farm.ledger().violations(), IsEmpty());
}

int64_t LossesAfterSuspend(int holders) {
  Simulator farm = Farm(holders);
  farm.RunFor(kSettle);
  farm.Suspend(kStop);
  farm.RunFor(kStop + kAfter);
  EXPECT_THAT(farm.ledger().violations(), IsEmpty()) << "nobody is blamed";
  return farm.ledger().losses();
}
TEST_P(Frozen, ASuspendedFarmLosesNoLease) { EXPECT_EQ(LossesAfterSuspend(GetParam()), 0); }
TEST_P(Frozen, WithoutTheRuleASuspendedFarmLosesLeases) {
  rpc::BreakRule("stopped-time");
  EXPECT_GT(LossesAfterSuspend(GetParam()), 0);
}

int64_t LossesAfterRestart(int holders) {
  Simulator farm = Farm(holders);
  farm.RunFor(kSettle);
  farm.CrashTracker();
  farm.RunFor(kAfter);
  return farm.ledger().losses();
}
TEST_P(Frozen, ARestartedTrackerLosesNoLease) { EXPECT_EQ(LossesAfterRestart(GetParam()), 0); }
TEST_P(Frozen, WithoutTheRuleARestartedTrackerLosesLeases) {
  rpc::BreakRule("recovery");
  EXPECT_GT(LossesAfterRestart(GetParam()), 0);
}

// scripts/night.sh runs the tests with 1,000 holders, which take a minute.
int Holders() {
  const char* text = std::getenv("AUTOTUNE_SIMULATOR_HOLDERS");
  return text ? std::stoi(text) : 100;
}
INSTANTIATE_TEST_SUITE_P(Holders, Frozen, testing::Values(Holders()));

TEST(FrozenTracker, OfAThousandHoldersLosesNoLease) { EXPECT_EQ(LossesAfterTrackerStop(1000), 0); }

}  // namespace
}  // namespace autotune
