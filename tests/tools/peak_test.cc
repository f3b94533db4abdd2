// Tests of the measurement of this host's peak.
#include "service/peak.h"

#include <gtest/gtest.h>

#include <optional>

#include "support/host_lock.h"
#include "tests/tools/cli.h"

namespace autotune {
namespace {

class Peak : public test::CliTest {};

// A peak counts only if no other process of this host built or measured meanwhile.
TEST_F(Peak, IsAloneOnlyWithTheHostsLock) {
  auto workers = MakeBuildWorkers({.workers = 1, .command = {test::kTools + "/autotune", "--build-worker"}});
  ASSERT_TRUE(workers.ok()) << workers.error().Text();
  const Target target = Target::Parse("cpu").value();
  for (bool alone : {true, false}) {
    std::optional<HostLock> other;
    if (!alone) other = HostLock::Acquire(HostLock::Mode::kShared).value();  // as another process that builds
    auto peak = MeasurePeakFlops(target, **workers, alone ? kHostPatienceMs : 1);
    ASSERT_TRUE(peak.ok()) << peak.error().Text();
    EXPECT_EQ(peak->alone, alone);
    EXPECT_GT(peak->flops, 0);
  }
}

}  // namespace
}  // namespace autotune
