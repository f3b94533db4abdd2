// A search that waits for another process on this host.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "records/memory_store.h"
#include "support/host_lock.h"
#include "tests/tuner/simulated.h"
#include "tuner/tune.h"

namespace autotune {
namespace {

using test::Scripted;
using test::TestTarget;

// Another process measures on this host, so the search waits. The stopped run keeps its trials and can be resumed.
TEST(Tune, AStopEndsTheWaitForTheHost) {
  const std::string path = ::testing::TempDir() + "tune-lock-" + std::to_string(getpid());
  setenv("AUTOTUNE_HOST_LOCK", path.c_str(), 1);
  std::vector<TuneTask> tasks = {test::TwoTasks()[1]};
  auto store = NewMemoryStore();
  Scripted device([](Scripted& d, const MeasureItem& item, const std::string& trace) { return d.Good(item, trace); });
  const TuneOptions options{.trials = 40, .seed = 1, .run = "r", .confirm = false};
  std::optional<HostLock> measurement;
  std::atomic<bool> stop = false;
  std::thread stopper;
  auto first = Tune(
      tasks, TestTarget(), options, *store, device,
      [&](const TuneReport&, const TaskReport&) {
        measurement = HostLock::Acquire(HostLock::Mode::kExclusive).value();
        stopper = std::thread([&] {
          usleep(200'000);
          stop = true;
        });
      },
      &stop);
  stopper.join();
  ASSERT_TRUE(first.ok()) << first.error().Text();
  EXPECT_TRUE(first->interrupted);
  EXPECT_GT(first->trials, 0);
  EXPECT_EQ(*store->Count({.run = "r", .trials_only = true}), first->trials);

  // A run that cannot even begin reports the trials of its earlier part.
  const size_t calls = device.calls.size();
  auto second = Tune(tasks, TestTarget(), options, *store, device, nullptr, &stop);
  ASSERT_TRUE(second.ok()) << second.error().Text();
  EXPECT_TRUE(second->interrupted);
  EXPECT_EQ(second->trials, first->trials);
  EXPECT_EQ(device.calls.size(), calls);

  measurement.reset();
  auto third = Tune(tasks, TestTarget(), options, *store, device);
  ASSERT_TRUE(third.ok()) << third.error().Text();
  EXPECT_FALSE(third->interrupted);
  EXPECT_EQ(third->resumed_trials, first->trials);
  EXPECT_EQ(third->trials, options.trials);
  unsetenv("AUTOTUNE_HOST_LOCK");
  unlink(path.c_str());
}

}  // namespace
}  // namespace autotune
