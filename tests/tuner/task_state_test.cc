// Tests of what a tuning run knows about one task.
#include "tuner/task_state.h"

#include <gtest/gtest.h>

#include <iterator>
#include <limits>
#include <optional>

#include "records/memory_store.h"
#include "tests/tuner/simulated.h"
#include "tuner/run_log.h"

namespace autotune {
namespace {

class TaskStateTest : public testing::Test {
 protected:
  TaskStateTest()
      : task_(test::TwoTasks()[1]),
        target_(test::TestTarget()),
        store_(NewMemoryStore()),
        log_(target_, options_, *store_) {}

  std::unique_ptr<TaskState> NewState() {
    return std::make_unique<TaskState>(TaskSpace::Make(task_, target_).value(), 1, SearchKind::kRandom);
  }

  TuneTask task_;
  Target target_;
  TuneOptions options_;
  std::unique_ptr<RecordStore> store_;
  RunLog log_;
  MachineState machine_;
};

Outcome Success(double seconds) {
  return {.status = TrialStatus::kOk, .times = {seconds}, .cost = seconds, .verified = true};
}

// Winograd's schedules execute a quarter of the operations at the least, so they show a quarter of the rate.
TEST_F(TaskStateTest, TheHighestRateCountsOperationsThatWereExecuted) {
  task_.flops = 1e6;
  task_.alternatives.push_back({"winograd4", task_.alternatives[0].func});
  std::unique_ptr<TaskState> state = NewState();
  EXPECT_EQ(state->HighestRate(machine_), 0);
  std::vector<Proposal> proposals = state->Propose(2, nullptr, machine_);
  ASSERT_EQ(proposals.size(), 2u);
  for (const auto& [alternative, rate] : {std::pair{"winograd4", 0.25e9}, std::pair{"direct", 1e9}}) {
    Record record = log_.Make(*state, proposals[0], Success(1e-3));
    record.alternative = alternative;
    std::optional<Proposal> proposal = state->Find(record);
    ASSERT_TRUE(proposal) << alternative;
    state->Absorb(record, proposal, machine_);
    EXPECT_DOUBLE_EQ(state->HighestRate(machine_), rate) << alternative;
  }
  // A failure and a schedule of another run show no rate of this run.
  Record other = log_.Make(*state, proposals[1], Success(1e-6));
  state->Know(*state->Find(other), other);
  EXPECT_DOUBLE_EQ(state->HighestRate(machine_), 1e9);
}

// The cost model learns that a candidate failed by its own fault, and how slow it is at least if it was cut off. It
// learns nothing from a failure of the farm or of an upload, which says nothing about the candidate.
TEST_F(TaskStateTest, FailuresOfCandidatesAreSamples) {
  constexpr double kFailed = std::numeric_limits<double>::infinity();
  struct Case {
    TrialStatus status;
    std::optional<double> seconds;  // of the sample; none: no sample
  };
  const Case cases[] = {
      {TrialStatus::kRejected, kFailed}, {TrialStatus::kCutOff, 2e-3},        {TrialStatus::kInfrastructure, {}},
      {TrialStatus::kOk, 2e-3},          {TrialStatus::kUploadFailed, {}},    {TrialStatus::kBuildFailed, kFailed},
      {TrialStatus::kDeviceError, {}},   {TrialStatus::kRunCrashed, kFailed}, {TrialStatus::kWrongAnswer, kFailed}};
  std::unique_ptr<TaskState> state = NewState();
  std::vector<Proposal> proposals = state->Propose(std::size(cases), nullptr, machine_);
  ASSERT_EQ(proposals.size(), std::size(cases));
  for (size_t i = 0; i < proposals.size(); ++i) {
    const auto& [status, seconds] = cases[i];
    Outcome outcome = test::Failure(status);
    if (status == TrialStatus::kOk) outcome = Success(2e-3);
    if (status == TrialStatus::kCutOff) outcome.cost = 2e-3;
    if (status == TrialStatus::kWrongAnswer) outcome.times = {outcome.cost = 1e-9};  // its time must not count
    state->Absorb(log_.Make(*state, proposals[i], outcome), proposals[i], machine_);
    std::vector<Sample> found = state->TakeSamples();
    ASSERT_EQ(found.size(), seconds ? 1u : 0u) << ToText(status);
    if (found.empty()) continue;
    EXPECT_EQ(found[0].seconds, *seconds) << ToText(status);
    EXPECT_EQ(found[0].features, proposals[i].features);
    EXPECT_EQ(found[0].draft_seconds, proposals[i].draft_seconds);
    EXPECT_EQ(found[0].task, task_.hash.low);
    EXPECT_TRUE(state->TakeSamples().empty()) << "a sample must be taken once";
  }
}

}  // namespace
}  // namespace autotune
