// Tests of what a tuning run knows about one task.
#include "tuner/task_state.h"

#include <gtest/gtest.h>

#include <cmath>
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
  std::vector<Proposal> proposals = state->Propose(2, nullptr, machine_).value();
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
  std::vector<Proposal> proposals = state->Propose(std::size(cases), nullptr, machine_).value();
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

// Absorbs the times of different candidates. Negative times are disturbed.
std::vector<Proposal> AbsorbTimes(TaskState& state, RunLog& log, const std::vector<double>& times,
                                  const MachineState& machine) {
  std::vector<Proposal> proposals = state.Propose(static_cast<int>(times.size()), nullptr, machine).value();
  EXPECT_EQ(proposals.size(), times.size());
  for (size_t i = 0; i < proposals.size(); ++i) {
    Outcome outcome = Success(std::abs(times[i]));
    if (times[i] < 0) outcome.disturbed = "load";
    state.Absorb(log.Make(state, proposals[i], outcome), proposals[i], machine);
  }
  return proposals;
}

TEST_F(TaskStateTest, DisturbedTimesCountOnlyIfThereAreNoOthers) {
  std::unique_ptr<TaskState> state = NewState();
  AbsorbTimes(*state, log_, {-1e-3, -3e-3}, machine_);
  EXPECT_EQ(state->BestSeconds(machine_), 1e-3);
  EXPECT_EQ(state->Progress(machine_, 0, 0).seconds, 1e-3);
  AbsorbTimes(*state, log_, {2e-3, 4e-3}, machine_);
  EXPECT_EQ(state->BestSeconds(machine_), 2e-3);
  EXPECT_EQ(state->Progress(machine_, 0, 0).seconds, 2e-3);
}

TEST_F(TaskStateTest, TheBestDisturbedCandidatesAreMeasuredAgainOnce) {
  std::unique_ptr<TaskState> state = NewState();
  const std::vector<Proposal> proposals = AbsorbTimes(*state, log_, {-2.9e-3, 2e-3, -9e-3, -1e-3}, machine_);
  const auto doubtful = [&](bool only_disturbed = false) {
    std::vector<std::string> traces;
    for (const Proposal& proposal : state->Doubtful(machine_, only_disturbed)) traces.push_back(ToText(proposal.trace));
    return traces;
  };
  const std::vector<std::string> expected = {ToText(proposals[3].trace), ToText(proposals[0].trace)};
  EXPECT_EQ(doubtful(), expected) << "the third candidate is too slow";
  EXPECT_EQ(doubtful(true), expected);
  Outcome again = Success(3e-3);
  state->Absorb(log_.Make(*state, proposals[3], again), proposals[3], machine_);
  EXPECT_EQ(doubtful(), std::vector{expected[1]});
  EXPECT_EQ(state->BestSeconds(machine_), 2e-3);
  again.disturbed = "load";
  state->Absorb(log_.Make(*state, proposals[0], again), proposals[0], machine_);
  EXPECT_TRUE(doubtful().empty()) << "a candidate gets one more try";
  again.cost = 1e-9;
  state->Absorb(log_.Make(*state, proposals[1], again), proposals[1], machine_);
  EXPECT_EQ(state->BestSeconds(machine_), 2e-3) << "a disturbed time does not replace an undisturbed one";
}

TEST_F(TaskStateTest, DisturbedFinalistsComeLast) {
  for (bool disturbed : {true, false}) {
    std::unique_ptr<TaskState> state = NewState();
    const std::vector<Proposal> proposals = AbsorbTimes(*state, log_, {disturbed ? -1e-3 : 1e-3, 2e-3, 3e-3}, machine_);
    const std::vector<Finalist> finalists = state->Finalists(std::nullopt, machine_);
    ASSERT_EQ(finalists.size(), 2u);
    EXPECT_EQ(ToText(finalists[0].proposal.trace), ToText(proposals[disturbed ? 1 : 0].trace));
    EXPECT_EQ(ToText(finalists[1].proposal.trace), ToText(proposals[disturbed ? 2 : 1].trace));
  }
}

// Records what a search is told.
class Told : public SearchStrategy {
 public:
  explicit Told(std::vector<double>& seconds) : seconds_(seconds) {}
  Result<std::vector<Proposal>> Propose(int) override { return std::vector<Proposal>(); }
  void Observe(const Proposal&, double seconds) override { seconds_.push_back(seconds); }
  void Exclude(const Proposal&) override {}

 private:
  std::vector<double>& seconds_;
};

TEST_F(TaskStateTest, TheSearchRanksDisturbedTimesLast) {
  for (const bool mixed : {true, false}) {
    std::unique_ptr<TaskState> random = NewState();
    std::vector<double> seconds;
    TaskState state(TaskSpace::Make(task_, target_).value(), 1, SearchKind::kRandom,
                    [&](const TaskSpace&, const CostModel*, uint64_t) { return std::make_unique<Told>(seconds); });
    const std::vector<Proposal> proposals = random->Propose(3, nullptr, machine_).value();
    for (size_t i = 0; i < 3; ++i) {
      Outcome outcome = Success(1e-3 * static_cast<double>(i + 1));
      if (i == 0 || !mixed) outcome.disturbed = "load";
      state.Absorb(log_.Make(state, proposals[i], outcome), proposals[i], machine_);
    }
    state.Propose(1, nullptr, machine_).value();
    EXPECT_EQ(seconds, (std::vector<double>{mixed ? 3e-3 : 1e-3, 2e-3, 3e-3}));
  }
}

}  // namespace
}  // namespace autotune
