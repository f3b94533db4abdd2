// The final choice on a host where another process builds: the choice waits for the host's lock, a stop ends this wait,
// and a choice that was made beside the other process says so.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

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

  ChosenNetwork Choose(const ChooseOptions& options) {
    return ChooseSchedules(network_, target_, *store_, *builder_, options).value();
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
  const ChooseOptions options{.max_seconds = 0, .max_extra_seconds = 0, .host_patience_ms = 0};
  const ChosenNetwork alone = Choose(options);
  ASSERT_EQ(alone.tasks_with_records, 1) << "nothing was measured";
  EXPECT_TRUE(alone.undisturbed);
  std::optional<HostLock> build = HostLock::Acquire(HostLock::Mode::kShared).value();
  EXPECT_FALSE(Choose(options).undisturbed);
}

TEST_F(ChoiceHost, AStopEndsTheWaitForTheHost) {
  std::optional<HostLock> build = HostLock::Acquire(HostLock::Mode::kShared).value();
  std::atomic<bool> stop = false;
  double stopped_at = 0;
  HostWaitWatch watch([&](const HostWait&) {
    if (!stop.exchange(true)) stopped_at = SteadySeconds();
  });
  EXPECT_TRUE(Choose({.max_seconds = 0, .max_extra_seconds = 0, .stop = &stop}).stopped);
  EXPECT_LT(SteadySeconds() - stopped_at, 1);
}

}  // namespace
}  // namespace autotune
