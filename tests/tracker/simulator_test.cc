#include "tests/tracker/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace autotune {
namespace {

constexpr int64_t kTwoHours = int64_t{2} * 3600 * 1000;
const Weather kCalm{.loss = 0,
                    .repeat = 0,
                    .max_delay_ms = 2,
                    .tracker_crashes = 0,
                    .server_crashes = 0,
                    .server_freezes = 0,
                    .cuts = 0};

TEST(Simulator, CalmWeather) {
  Simulator farm(1, kCalm, 2, 4, 3);
  farm.Run(kTwoHours);
  EXPECT_TRUE(farm.AllDone());
  EXPECT_THAT(farm.violations, testing::IsEmpty());
  EXPECT_EQ(farm.infrastructure, 0);
  // No candidate was measured twice, except those that crash, which are repeated before they are charged.
  EXPECT_GT(farm.crashed, 0);
  EXPECT_EQ(farm.executed, farm.delivered + farm.crashed);
}

// Under all faults, no device works for two leases, every candidate is answered exactly once, and nothing hangs.
TEST(Simulator, StormySeeds) {
  int tracker_restarts = 0, server_restarts = 0, repeated = 0;
  const char* more = std::getenv("AUTOTUNE_SIMULATOR_SEEDS");  // the number of seeds for a longer test
  for (uint64_t seed = 1, last = more ? std::stoull(more) : 30; seed <= last; ++seed) {
    Simulator farm(seed, Weather{}, 3, 5, 3);
    farm.Run(kTwoHours);
    EXPECT_TRUE(farm.AllDone()) << "seed " << seed << " hangs";
    EXPECT_THAT(farm.violations, testing::IsEmpty()) << "seed " << seed;
    EXPECT_EQ(farm.infrastructure, 0) << "seed " << seed;
    tracker_restarts += farm.tracker_restarts;
    server_restarts += farm.server_restarts;
    repeated += farm.executed - farm.delivered;
  }
  // The faults did occur.
  EXPECT_GT(tracker_restarts, 10);
  EXPECT_GT(server_restarts, 30);
  EXPECT_GT(repeated, 0);
}

// With forged tokens, a promise is violated, and the simulator notices.
TEST(Simulator, ForgedTokensAreNoticed) {
  Weather weather;
  weather.forge_tokens = true;
  size_t violations = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Simulator farm(seed, weather, 1, 5, 2);
    farm.Run(kTwoHours / 8);
    violations += farm.violations.size() + !farm.AllDone();
  }
  EXPECT_GT(violations, 0u);
}

}  // namespace
}  // namespace autotune
