// Jobs of one client: divided into batches, several at once, cancelled, and waiting for a quiet host.
#include <atomic>
#include <future>
#include <optional>
#include <set>

#include "support/host_lock.h"
#include "tests/tracker/farm.h"

namespace autotune {
namespace {

using rpc::MeasureCallbacks;
using testing::HasSubstr;

class FarmJobs : public FarmTest {};

TEST_F(FarmJobs, ALargeJobIsCutIntoBatches) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  std::string good(*Compile(kDouble));
  std::vector<Blob> artifacts;
  for (int i = 0; i < 150; ++i) {
    // The loader ignores bytes after the sections.
    artifacts.push_back(rpc::MakeBlob(good + std::string(i % 2 ? 200000 : 10, 'x')));
  }
  auto results = client->Measure(JobOf(artifacts));
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(StatusesOf(*results), std::vector(150, TrialStatus::kOk));
}

TEST_F(FarmJobs, MeasuringWaitsUntilTheHostIsQuiet) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  std::optional<HostLock> build = std::move(HostLock::Acquire(HostLock::Mode::kShared)).value();
  std::atomic<int> count = 0;
  auto measured = std::async(std::launch::async, [&] {
    return client->Measure(JobOf({Compile(kDouble)}), {.on_result = [&](const TrialResult&) { ++count; }});
  });
  usleep(300000);
  EXPECT_EQ(count, 0);
  build.reset();
  EXPECT_TRUE(measured.get().ok());
  EXPECT_EQ(count, 1);
  // The lock is released after the batch.
  EXPECT_TRUE(Soon([] { return std::move(HostLock::TryAcquire(HostLock::Mode::kShared)).value().has_value(); }));
}

TEST_F(FarmJobs, SeveralJobsAtOnceTakeSeveralDevices) {
  Subprocess tracker = StartTracker();
  auto first = StartServer("cpu", {"--shared-host"}), second = StartServer("cpu", {"--shared-host"});
  ASSERT_TRUE(Soon([&] { return Count("cpu") == 2; }));
  auto client = Client("cpu");
  Blob artifact = Compile(kDouble);
  std::vector<std::future<Result<std::vector<TrialResult>>>> jobs;
  for (int i = 0; i < 3; ++i) {
    jobs.push_back(std::async(std::launch::async, [&] {
      MeasureJob job = JobOf(std::vector<Blob>(10, artifact));
      for (auto& c : job.candidates) c.min_repeat_ms = 50;
      return client->Measure(job);
    }));
  }
  EXPECT_TRUE(Soon([&] { return Count("cpu", "busy") == 2; }));
  std::set<std::string> devices;
  for (auto& job : jobs) {
    auto results = job.get();
    ASSERT_TRUE(results.ok()) << results.error().Text();
    EXPECT_EQ(StatusesOf(*results), std::vector(10, TrialStatus::kOk));
    devices.insert(results->front().device);
  }
  EXPECT_EQ(devices.size(), 2u);
}

TEST_F(FarmJobs, CancelEndsAtTheNextCandidate) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  std::vector<Blob> artifacts(40, Compile(kDouble));
  MeasureJob job = JobOf(artifacts);
  for (auto& c : job.candidates) c.min_repeat_ms = 100;
  auto results = client->Measure(job, {.on_result = [&](const TrialResult&) { client->Cancel(); }});
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(results->front().status, TrialStatus::kOk);
  EXPECT_EQ(results->back().status, TrialStatus::kCancelled);
  // The next job is measured normally.
  results = client->Measure(JobOf({Compile(kDouble)}));
  ASSERT_TRUE(results.ok());
  EXPECT_EQ(results->front().status, TrialStatus::kOk);
}

// A later Cancel lets a short job end with all its results, and ends a long one.
TEST_F(FarmJobs, ALaterCancelLetsAShortJobEnd) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  const auto last_status = [&](size_t candidates) {
    MeasureJob job = JobOf(std::vector<Blob>(candidates, Compile(kDouble)));
    for (auto& c : job.candidates) c.min_repeat_ms = 100;  // a candidate takes at least 0.3 s
    std::atomic<bool> asked = false;
    auto results = client->Measure(job, {.on_result = [&](const TrialResult&) {
                                     if (!asked.exchange(true)) client->Cancel(/*after_seconds=*/3);
                                   }});
    EXPECT_TRUE(results.ok());
    return results->back().status;
  };
  EXPECT_EQ(last_status(40), TrialStatus::kCancelled);
  EXPECT_EQ(last_status(2), TrialStatus::kOk);
}

TEST_F(FarmJobs, AWaitTellsWhoHoldsTheDeviceAndCanBeCancelled) {
  Subprocess tracker = StartTracker();
  auto server = StartServer("cpu");
  ASSERT_TRUE(Soon([&] { return Count("cpu") == 1; }));
  auto holder = Client("cpu"), waiting = Client("cpu");
  // The holder keeps its device for a while after its job.
  ASSERT_TRUE(holder->Measure(JobOf({Compile(kDouble)})).ok());
  std::atomic<int> reports = 0;
  std::string told;
  MeasureCallbacks callbacks;
  callbacks.on_wait = [&](const rpc::DeviceWait& wait) {
    EXPECT_EQ(wait.position, 1);
    EXPECT_EQ(wait.holders.size(), 1u);
    told = wait.text;
    ++reports;
    waiting->Cancel();
  };
  auto results = waiting->Measure(JobOf({Compile(kDouble), Compile(kDouble)}), callbacks);
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(StatusesOf(*results), std::vector(2, TrialStatus::kCancelled));
  EXPECT_EQ(reports, 1);
  EXPECT_THAT(told, HasSubstr("1 of 1 devices `cpu` busy; place 1 in the queue; held by "));
  EXPECT_THAT(told, HasSubstr(":" + std::to_string(getpid()) + " for "));
  // Cancel also works while the tracker does not answer at all.
  callbacks.on_wait = [&](const rpc::DeviceWait& wait) {
    told = wait.text;
    if (wait.position == 0) {
      waiting->Cancel();
    } else {
      tracker.Kill(SIGSTOP);
    }
  };
  results = waiting->Measure(JobOf({Compile(kDouble)}), callbacks);
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(results->front().status, TrialStatus::kCancelled);
  EXPECT_EQ(told, "the tracker does not answer");
}

// Every job is cancelled when its only result arrives. The cancellation is too late for this job, and must not reach
// the next one.
TEST_F(FarmJobs, ALateCancelDoesNotReachTheNextJob) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  MeasureJob job = JobOf({Compile(kDouble)});
  for (int i = 0; i < 100; ++i) {
    auto results = client->Measure(job, {.on_result = [&](const TrialResult&) { client->Cancel(); }});
    ASSERT_TRUE(results.ok()) << results.error().Text();
    ASSERT_EQ(results->front().status, TrialStatus::kOk) << "job " << i;
  }
}

}  // namespace
}  // namespace autotune
