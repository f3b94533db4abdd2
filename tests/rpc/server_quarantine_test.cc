// A device that fails is quarantined, and comes back after a probe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "tests/rpc/server_world.h"

namespace autotune::rpc {
namespace {

using testing::HasSubstr;

class Quarantine : public testing::Test {
 protected:
  void Fail() {
    ++batches_;
    w_.Say("b" + std::to_string(batches_), ServerWorld::Batch(batches_, 2));
    ASSERT_TRUE(w_.started);
    RunnerResult failed{w_.started->run, {.status = TrialStatus::kDeviceError, .error = "bit flip"}};
    w_.started.reset();
    w_.Take(w_.session.OnRunnerMessage({"", failed, {}}, w_.now));
    w_.Say("end", LeaseEnd{ServerWorld::Claim(batches_)});
  }
  void Answer(TrialStatus status, const std::string& error = "still broken") {
    RunnerResult result{*w_.probe, {.status = status, .error = error}};
    w_.probe.reset();
    w_.Take(w_.session.OnRunnerMessage({"", result, {}}, w_.now));
  }
  // Lets time pass. A runner that is killed meanwhile is replaced at once.
  void Pass(int64_t ms) {
    const int kills = w_.kills;
    w_.Pass(ms);
    if (w_.kills == kills) return;
    w_.Take(w_.session.OnRunnerReady(w_.now));
    w_.Pass(0);
  }
  // Returns the milliseconds until a probe starts.
  int64_t WaitForProbe() {
    const int64_t begin = w_.now;
    while (!w_.probe && w_.now < begin + 1000000) Pass(100);
    return w_.now - begin;
  }
  ServerReport Report() {
    Pass(1000);
    return *w_.tracker.back().As<ServerReport>();
  }
  bool Happened(FarmEvent::Kind kind) const {
    return std::ranges::any_of(w_.events, [&](const FarmEvent& event) { return event.kind == kind; });
  }
  ServerWorld w_;
  int batches_ = 0;
};

TEST_F(Quarantine, AFailedDeviceMeasuresNothingUntilItsProbe) {
  EXPECT_EQ(Report().quarantine, "");
  Fail();
  EXPECT_EQ(Report().quarantine, "bit flip");
  EXPECT_FALSE(Report().ready);
  EXPECT_TRUE(Happened(FarmEvent::Kind::kQuarantined));
  w_.Say("b", ServerWorld::Batch(++batches_, 2));
  EXPECT_FALSE(w_.started);
  ASSERT_EQ(w_.Results().size(), 2u);
  for (const TrialResult& result : w_.Results()) {
    EXPECT_EQ(result.status, TrialStatus::kDeviceError);
    EXPECT_EQ(result.error, "bit flip");
    EXPECT_EQ(result.started, 0) << "a candidate that did not run is not suspected";
  }
  w_.Say("end", LeaseEnd{ServerWorld::Claim(batches_)});
  WaitForProbe();
  ASSERT_TRUE(w_.probe);
  Answer(TrialStatus::kOk);
  EXPECT_EQ(w_.events.back().kind, FarmEvent::Kind::kRecovered);
  EXPECT_EQ(Report().quarantine, "");
  EXPECT_TRUE(Report().ready);
  w_.Say("c", ServerWorld::Batch(++batches_, 1));
  w_.Finish();
  EXPECT_EQ(w_.Results().at(0).status, TrialStatus::kOk);
}

TEST_F(Quarantine, TheWaitsGrowUntilACandidateSucceeds) {
  Fail();
  EXPECT_EQ(WaitForProbe(), 1000);
  Answer(TrialStatus::kDeviceError);
  EXPECT_EQ(Report().quarantine, "still broken");
  EXPECT_EQ(WaitForProbe(), 4000);  // and the second of the report
  Answer(TrialStatus::kOk);
  Fail();
  EXPECT_EQ(WaitForProbe(), 30000) << "a device that fails again soon gets a longer wait";
  Answer(TrialStatus::kOk);
  w_.Say("good", ServerWorld::Batch(++batches_, 1));
  w_.Finish();
  Fail();
  EXPECT_EQ(WaitForProbe(), 1000);
}

// A candidate that has forged a failure could answer the probe as well.
TEST_F(Quarantine, AProbeNeedsARunnerThatHasRunNoCandidate) {
  Fail();
  w_.Pass(1000);
  EXPECT_FALSE(w_.probe);
  EXPECT_EQ(w_.kills, 1);
  w_.Take(w_.session.OnRunnerReady(w_.now));
  w_.Pass(0);
  EXPECT_TRUE(w_.probe);
  Answer(TrialStatus::kDeviceError);
  WaitForProbe();
  EXPECT_EQ(w_.kills, 1) << "a probe leaves its runner clean";
}

TEST_F(Quarantine, AProbeWithoutARunnerIsOver) {
  Fail();
  WaitForProbe();
  w_.probe.reset();
  w_.Take(w_.session.OnRunnersUnavailable("no runner", w_.now));
  w_.Take(w_.session.OnRunnerReady(w_.now));
  EXPECT_LE(WaitForProbe(), 5000) << "and not after the deadline of the first";
  Answer(TrialStatus::kOk);
  EXPECT_EQ(Report().quarantine, "");
}

TEST_F(Quarantine, AFailureWithoutAReasonIsAFailure) {
  Fail();
  WaitForProbe();
  Answer(TrialStatus::kDeviceError, "");
  EXPECT_EQ(Report().quarantine, "the device has failed");
  EXPECT_FALSE(Report().ready);
}

// A probe may kill its runner, or hang; a probe waits for a runner.
TEST_F(Quarantine, AProbeThatDoesNotAnswerFails) {
  Fail();
  WaitForProbe();
  w_.probe.reset();
  w_.End({"was ended by signal 11", SIGSEGV, false});
  EXPECT_THAT(Report().quarantine, HasSubstr("during a probe, the runner was ended by signal 11"));
  WaitForProbe();
  w_.probe.reset();
  const int kills = w_.kills;
  w_.Pass(31000);
  EXPECT_EQ(w_.kills, kills + 1);
  EXPECT_THAT(Report().quarantine, HasSubstr("a small kernel took longer than 30 s"));
  w_.Pass(600000);
  EXPECT_FALSE(w_.probe) << "before there is a runner";
  w_.Take(w_.session.OnRunnerReady(w_.now));
  WaitForProbe();
  EXPECT_TRUE(w_.probe);
}

TEST_F(Quarantine, ADeviceWithoutARunnerSaysWhy) {
  w_.Take(w_.session.OnRunnersUnavailable("no runner can be started", w_.now));
  EXPECT_EQ(Report().quarantine, "no runner can be started");
  w_.Take(w_.session.OnRunnerReady(w_.now));
  EXPECT_EQ(Report().quarantine, "");
}

}  // namespace
}  // namespace autotune::rpc
