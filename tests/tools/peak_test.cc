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

// Groups of products are added at several times the speed of f32, by the instructions of which the target has them.
TEST_F(Peak, OfGroupsOfProductsIsAboveThatOfFloats) {
  auto workers = MakeBuildWorkers({.workers = 1, .command = {test::kTools + "/autotune", "--build-worker"}});
  ASSERT_TRUE(workers.ok()) << workers.error().Text();
  const Target target = Target::Parse("cpu").value();
  for (const DType factors : {DType::Int(8), DType::BFloat16()}) {
    if (!target.has_tiles && !target.HasDot(factors.IsFloat(), factors.bits)) continue;
    // Of the fastest of three, since another process may disturb one.
    double best = 0;
    for (int i = 0; i < 3; ++i) {
      const auto peak = MeasurePeakOfDots(factors, target, **workers, kHostPatienceMs);
      ASSERT_TRUE(peak.ok()) << peak.error().Text();
      best = std::max(best, peak->flops / MeasurePeakFlops(target, **workers).value().flops);
    }
    EXPECT_GT(best, 1) << factors.Text();
  }
}

}  // namespace
}  // namespace autotune
