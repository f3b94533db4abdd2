// The final choice on a host where another process builds: the choice waits for the host's lock, a stop ends this wait,
// and a choice that was made beside the other process says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <set>

#include "compiler/choose.h"
#include "frontend/operator/operator.h"
#include "ir/text.h"
#include "records/memory_store.h"
#include "schedule/trace.h"
#include "support/clock.h"
#include "support/host_lock.h"
#include "tuner/defaults.h"
#include "tuner/tune.h"

namespace autotune {
namespace {

class ChoiceHost : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("AUTOTUNE_HOST_LOCK", lock_.c_str(), 1);
    builder_ = MakeBuildWorkers(
                   {.workers = 2, .command = {std::string(AUTOTUNE_BINARY_DIR) + "/tools/autotune", "--build-worker"}})
                   .value();
    network_ = MakeNetwork(ParseOperator("matmul:64,64,64").value().module, {}, target_, *builder_).value();
    AppendRecords();
  }
  void TearDown() override {
    unsetenv("AUTOTUNE_HOST_LOCK");
    unlink(lock_.c_str());
  }

  ChosenNetwork Choose(const LocalHostOptions& host,
                       const ChooseOptions& options = {.max_seconds = 0, .max_extra_seconds = 0}) {
    return ChooseSchedules(network_, target_, *store_, *builder_, *MakeLocalHost(host), options).value();
  }

  const std::string lock_ = ::testing::TempDir() + "choice-lock-" + std::to_string(getpid());
  const Target target_ = Target::Parse("cpu").value();
  std::unique_ptr<Builder> builder_;
  Network network_;
  std::unique_ptr<RecordStore> store_ = NewMemoryStore();

 private:
  // Appends records of schedules that compete with the default one, as if they had been measured.
  void AppendRecords() {
    const TuneTask task = MakeTuneTasks(network_)[0];
    const TaskSpace space = TaskSpace::Make(task, target_).value();
    std::vector<Record> records;
    for (const Proposal& proposal : DefaultProposals(space, 4)) {
      const TaskAlternative& alternative = task.alternatives[space.sketches[proposal.sketch].alternative];
      Record& record = records.emplace_back();
      record.id = NewRecordId();
      record.task = task.hash.Hex();
      record.alternative = alternative.name;
      record.func = ToText(alternative.func);
      record.trace = ToText(proposal.trace);
      record.target = target_.Text();
      record.times = {1e-6};
      record.cost = 1e-6;
      record.verified = true;
      record.versions = CurrentVersions();
    }
    ASSERT_TRUE(store_->Append(records).ok());
  }
};

TEST_F(ChoiceHost, AChoiceBesideABuildIsReportedAsDisturbed) {
  const LocalHostOptions impatient{.patience_ms = 0};
  const ChosenNetwork alone = Choose(impatient);
  ASSERT_EQ(alone.tasks_with_records, 1) << "nothing was measured";
  EXPECT_TRUE(alone.undisturbed);
  std::optional<HostLock> build = HostLock::Acquire(HostLock::Mode::kShared).value();
  EXPECT_FALSE(Choose(impatient).undisturbed);
}

TEST_F(ChoiceHost, AStopEndsTheWaitForTheHost) {
  std::optional<HostLock> build = HostLock::Acquire(HostLock::Mode::kShared).value();
  std::atomic<bool> stop = false;
  double stopped_at = 0;
  HostWaitWatch watch([&](const HostWait&) {
    if (!stop.exchange(true)) stopped_at = SteadySeconds();
  });
  EXPECT_TRUE(Choose({.stop = &stop}, {.max_seconds = 0, .max_extra_seconds = 0, .stop = &stop}).stopped);
  EXPECT_LT(SteadySeconds() - stopped_at, 1);
}

// A host whose device is lost at some calls, and there again afterwards.
class Losing : public NetworkHost {
 public:
  Losing(std::set<int> lost, bool recovers) : lost_(std::move(lost)), recovers_(recovers) {}
  Result<Module> Load(const Package& package, int threads, bool replaceable) override {
    TRY(Lose());
    return local_->Load(package, threads, replaceable);
  }
  Result<Value> Measure(const PackedFunc& function, const std::vector<Value>& args) override {
    TRY(Lose());
    return local_->Measure(function, args);
  }
  Result<PairedTimes> MeasureInPairs(const PackedFunc& first, const PackedFunc& second,
                                     const PairedOptions& options) override {
    TRY(Lose());
    return local_->MeasureInPairs(first, second, options);
  }
  bool Recover() override { return recovers_; }
  bool undisturbed() const override { return local_->undisturbed(); }
  MeasuredOn measured_on() const override { return {.device = device}; }
  std::string device;
  int calls = 0;

 private:
  Status Lose() {
    if (lost_.contains(calls++)) return Err("the device is lost");
    return {};
  }
  const std::set<int> lost_;
  const bool recovers_;
  const std::unique_ptr<NetworkHost> local_ = MakeLocalHost({.patience_ms = 0});
};

TEST_F(ChoiceHost, ATurnBeginsAgainWhenTheDeviceIsLost) {
  const ChooseOptions options{.max_seconds = 0, .max_extra_seconds = 0};
  const auto choose = [&](NetworkHost& host) {
    return ChooseSchedules(network_, target_, *store_, *builder_, host, options);
  };
  Losing never({}, false);
  ASSERT_TRUE(choose(never).ok());
  // The first calls load and visit the network; whether packages are compared depends on the times.
  ASSERT_GE(never.calls, 3);
  for (const std::set<int>& lost : {std::set<int>{0}, {1}, {2}, {0, 1, 2, 4}}) {
    Losing again(lost, true);
    const Result<ChosenNetwork> chosen = choose(again);
    ASSERT_TRUE(chosen.ok()) << chosen.error().Text();
    EXPECT_EQ(chosen->tasks_with_records, 1);
    EXPECT_FALSE(chosen->choice.schedules.empty());
    Losing gone(lost, false);
    EXPECT_THAT(choose(gone).error().Text(), testing::HasSubstr("the device is lost"));
  }
}

// A choice of one device says nothing of another one with the same target.
TEST_F(ChoiceHost, EachDeviceChoosesForItself) {
  const ChooseOptions options{.max_seconds = 0, .max_extra_seconds = 0};
  const auto choose = [&](const std::string& device) {
    Losing host({}, false);
    host.device = device;
    ChosenNetwork chosen = ChooseSchedules(network_, target_, *store_, *builder_, host, options).value();
    EXPECT_TRUE(StoreChoice(*store_, chosen.choice).ok());
    EXPECT_EQ(chosen.choice.measured_on.device, device);
    return std::pair(chosen.same_schedules, host.calls > 0);
  };
  EXPECT_EQ(choose("pi"), std::pair(false, true));
  EXPECT_EQ(choose("pi"), std::pair(true, false));
  EXPECT_EQ(choose("rpi5"), std::pair(false, true));
  EXPECT_EQ(choose(""), std::pair(false, true));
  EXPECT_EQ(Choose({.patience_ms = 0}).same_schedules, true);
}

}  // namespace
}  // namespace autotune
