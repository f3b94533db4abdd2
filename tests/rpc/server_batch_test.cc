// How a device server works on a batch: blame, references, runners.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>

#include "tests/rpc/server_world.h"

namespace autotune::rpc {
namespace {

using testing::HasSubstr;

using Statuses = std::map<std::string, TrialStatus>;

TEST(ServerBatch, AFailureIsRepeatedAloneAfterTheRest) {
  ServerWorld w;
  w.Say("b", ServerWorld::Batch(1, 3));
  w.Finish(TrialStatus::kWrongAnswer);
  EXPECT_EQ(w.started->candidate.id, "1") << "the others go first";
  EXPECT_EQ(w.kills, 0);
  w.Enter(RunnerPhase::kRun);
  w.End({"was ended by signal 11", 11, false});
  EXPECT_EQ(w.started->candidate.id, "2");
  w.Finish();
  EXPECT_EQ(w.releases, 0) << "the host is held until the repetitions are done";
  for (const char* id : {"0", "1"}) {
    EXPECT_FALSE(w.started) << "before there is a fresh runner";
    w.Take(w.session.OnRunnerReady(w.now));
    ASSERT_TRUE(w.started);
    EXPECT_EQ(w.started->candidate.id, id);
    w.Finish();
  }
  EXPECT_EQ(w.kills, 2);
  EXPECT_EQ(w.releases, 1);
  EXPECT_EQ(w.Statuses(), (Statuses{{"0", TrialStatus::kOk}, {"1", TrialStatus::kOk}, {"2", TrialStatus::kOk}}));
}

TEST(ServerBatch, AFailureThatRepeatsIsCharged) {
  ServerWorld w;
  w.Say("b", ServerWorld::Batch(1, 2));
  w.Finish(TrialStatus::kWrongAnswer);
  w.Finish();
  w.Take(w.session.OnRunnerReady(w.now));
  w.Finish(TrialStatus::kWrongAnswer);
  EXPECT_FALSE(w.started);
  ASSERT_EQ(w.Results().size(), 2u);
  EXPECT_EQ(w.Results()[0].status, TrialStatus::kOk);
  EXPECT_EQ(w.Results()[1].status, TrialStatus::kWrongAnswer);
}

TEST(ServerBatch, ACandidateThatWaitsForItsRepetitionIsCancelled) {
  ServerWorld w;
  w.Say("b", ServerWorld::Batch(1, 2));
  w.Finish(TrialStatus::kWrongAnswer);
  w.SayAs(w.kPeer, BatchCancel{ServerWorld::Claim(1), "b"});
  w.Finish();
  EXPECT_FALSE(w.started);
  ASSERT_EQ(w.Results().size(), 2u);
  EXPECT_EQ(w.Results()[0].status, TrialStatus::kOk);
  EXPECT_EQ(w.Results()[1].status, TrialStatus::kCancelled);
  EXPECT_EQ(w.releases, 1);
}

TEST(ServerBatch, CrashesAreChargedKillsFromOutsideAreNot) {
  ServerWorld w;
  w.Say("b", ServerWorld::Batch(1, 1));
  for (int kill = 0; kill < 2; ++kill) {
    w.Enter(RunnerPhase::kRun);
    w.End({"was killed", SIGKILL, false});
    ASSERT_TRUE(w.started) << "it starts again";
  }
  w.CrashTwice();
  ASSERT_EQ(w.Results().size(), 1u);
  EXPECT_EQ(w.Results()[0].status, TrialStatus::kRunCrashed);
  // The operating system killed a process for lack of memory. Only the second kill is charged to the candidate.
  w.Say("b2", ServerWorld::Batch(1, 1));
  for (int kill = 0; kill < 2; ++kill) {
    w.Enter(RunnerPhase::kRun);
    EXPECT_TRUE(w.Results().empty());
    w.End({"was killed", SIGKILL, true});
  }
  EXPECT_EQ(w.Results().at(0).status, TrialStatus::kOutOfMemory);
  // A candidate in whose runs something kills the runner every time is charged in the end.
  w.Say("b3", ServerWorld::Batch(1, 1));
  for (int kill = 0; kill < 3; ++kill) {
    w.Enter(RunnerPhase::kRun);
    EXPECT_TRUE(w.Results().empty());
    w.End({"was killed", SIGKILL, false});
  }
  EXPECT_EQ(w.Results().at(0).status, TrialStatus::kRunCrashed);
}

// Lets the started candidate miss its deadline of 10 s, and makes a fresh runner ready.
void TimeOut(ServerWorld& w) {
  w.Enter(RunnerPhase::kRun);
  w.started.reset();
  for (int second = 0; second < 11; ++second) {
    w.SayAs(w.kPeer, ClientBeat{ServerWorld::Claim(1), "b"});
    w.Pass(1000);
  }
  w.Take(w.session.OnRunnerReady(w.now));
}

TEST(ServerBatch, AHangIsRepeatedUnlessItUsedItsTime) {
  for (auto runner : {ServerWorld::Runner::kBusy, ServerWorld::Runner::kAsleep}) {
    ServerWorld w;
    w.Become(runner);
    w.Say("b", ServerWorld::Batch(1, 1));
    TimeOut(w);
    const bool repeats = runner == ServerWorld::Runner::kAsleep;
    EXPECT_EQ(w.started.has_value(), repeats);
    EXPECT_EQ(w.kills, 1);
    if (repeats) TimeOut(w);
    EXPECT_FALSE(w.started);
    EXPECT_EQ(w.Statuses(), (Statuses{{"0", TrialStatus::kRunTimedOut}}));
  }
}

// A runner that something stops says nothing about its candidate.
TEST(ServerBatch, AStoppedRunnerIsNotTheCandidatesFault) {
  ServerWorld w;
  w.Become(ServerWorld::Runner::kStopped);
  w.Say("b", ServerWorld::Batch(1, 1));
  TimeOut(w);
  TimeOut(w);
  ASSERT_TRUE(w.started);
  EXPECT_TRUE(w.Results().empty());
  w.Finish();
  EXPECT_EQ(w.Results().at(0).status, TrialStatus::kOk);

  w.Say("b2", ServerWorld::Batch(1, 2));
  for (int i = 0; i < 5; ++i) TimeOut(w);
  EXPECT_FALSE(w.started);
  EXPECT_EQ(w.Statuses(), (Statuses{{"0", TrialStatus::kDeviceError}, {"1", TrialStatus::kDeviceError}}));
}

void Pass(ServerWorld& w, int seconds) {
  for (int second = 0; second < seconds; ++second) {
    w.SayAs(w.kPeer, ClientBeat{ServerWorld::Claim(1), "b"});
    w.Pass(1000);
  }
}

// A deadline counts no time in which the runner was stopped, at its beginning or at its end, and all other time.
TEST(ServerBatch, ADeadlineGrowsByStops) {
  constexpr int kDeadline = 10;  // seconds of Batch
  ServerWorld w;
  w.Say("b", ServerWorld::Batch(1, 1));
  w.Enter(RunnerPhase::kRun);
  for (const int awake : {1, kDeadline - 2}) {
    w.Become(ServerWorld::Runner::kStopped);
    Pass(w, kDeadline / 2 - 1);
    w.Become(ServerWorld::Runner::kAsleep);
    Pass(w, awake);
  }
  EXPECT_EQ(w.kills, 0);
  Pass(w, 2);
  EXPECT_EQ(w.kills, 1);
}

// A deadline counts the time in which the runner could run.
TEST(ServerBatch, ADeadlineGrowsByWaitsForAProcessor) {
  constexpr int kDeadline = 10, kMostStretch = 4;  // seconds of Batch; times that length
  ServerWorld w;
  const auto pass = [&](int seconds) { Pass(w, seconds); };
  w.Become(ServerWorld::Runner::kStarved);
  w.Say("b", ServerWorld::Batch(1, 3));
  w.Enter(RunnerPhase::kRun);
  pass(kDeadline * kMostStretch - 2);
  EXPECT_EQ(w.kills, 0);
  w.Finish();
  EXPECT_EQ(w.Results().at(0).status, TrialStatus::kOk);

  // From here on it runs, and gets no more than what it waited for.
  w.Enter(RunnerPhase::kRun);
  pass(kDeadline + 1);
  EXPECT_EQ(w.kills, 0);
  w.Become(ServerWorld::Runner::kBusy);
  pass(kDeadline);
  EXPECT_EQ(w.kills, 1);
  w.Take(w.session.OnRunnerReady(w.now));
  EXPECT_EQ(w.Statuses().at("1"), TrialStatus::kRunTimedOut);

  // A runner that never gets a processor blames the device.
  w.Become(ServerWorld::Runner::kStarved);
  w.Enter(RunnerPhase::kRun);
  pass(kDeadline * kMostStretch + 1);
  EXPECT_EQ(w.kills, 2);
  EXPECT_EQ(w.Statuses().at("2"), TrialStatus::kDeviceError);
}

// Threads of a runner that computes wait for each other. That is no reason for more time.
TEST(ServerBatch, WaitsOfAComputingRunnerExtendNothing) {
  ServerWorld w;
  w.Become(ServerWorld::Runner::kCrowded);
  w.Say("b", ServerWorld::Batch(1, 1));
  TimeOut(w);
  EXPECT_EQ(w.kills, 1);
  EXPECT_EQ(w.Statuses(), (Statuses{{"0", TrialStatus::kRunTimedOut}}));
}

TEST(ServerBatch, ReferencesAreKeptByTheirHash) {
  ServerWorld w;
  MeasureRequest request = ServerWorld::Batch(1, 1);
  request.candidates[0].check = true;
  request.task.reference_hash = HashBytes128("reference").Hex();
  w.Say("b1", request);
  EXPECT_THAT(w.RefusalText(), HasSubstr("need_reference"));
  request.has_reference = true;
  w.Say("b2", request, {Bytes("artifact"), Bytes("another")});
  EXPECT_THAT(w.RefusalText(), HasSubstr("does not have the hash"));
  w.Say("b3", request, {Bytes("artifact"), Bytes("reference")});
  EXPECT_TRUE(w.started);
  w.Finish();
  request.has_reference = false;
  w.Say("b4", request);
  EXPECT_TRUE(w.started);
  // A late copy of a refused batch does not undo the one that its client has sent since.
  w.Say("b1", request);
  EXPECT_THAT(w.RefusalText(), HasSubstr("need_reference"));
  w.Finish();
  EXPECT_EQ(w.Results().size(), 1u);
}

TEST(ServerBatch, AnothersOutOfMemoryIsNotCharged) {
  ServerWorld w;
  w.Say("b", ServerWorld::Batch(1, 1));
  w.End({"was killed", 9, true});
  ASSERT_TRUE(w.started);
  w.Finish();
  ASSERT_EQ(w.Results().size(), 1u);
  EXPECT_EQ(w.Results()[0].status, TrialStatus::kOk);
}

TEST(ServerBatch, ARunnerThatStartsAnewGetsNoNewDeadline) {
  ServerWorld w;
  w.Say("b", ServerWorld::Batch(1, 1));
  w.Enter(RunnerPhase::kRun);
  for (int second = 0; second < 12; ++second) {
    w.Say("x", ClientBeat{ServerWorld::Claim(1), "b"});
    w.Pass(1000);
    if (w.kills) break;
    w.Enter(RunnerPhase::kLoad);
    w.Enter(RunnerPhase::kReference);
    w.Enter(RunnerPhase::kRun);
  }
  EXPECT_EQ(w.kills, 1);
  EXPECT_EQ(w.Results().at(0).status, TrialStatus::kRunTimedOut);
}

TEST(ServerBatch, ARunnerGetsAReferenceOnce) {
  ServerWorld w;
  w.MeasureChecked("b1", 3);
  EXPECT_EQ(w.blobs, 2u);
  // This candidate does not load, so the runner never reaches the reference.
  w.Finish(TrialStatus::kLoadFailed);
  EXPECT_EQ(w.blobs, 2u);
  w.Enter(RunnerPhase::kReference);
  w.Take(w.session.OnRunnerMessage({"", RunnerReference{w.started->run}, {Bytes("out")}}, w.now));
  w.Enter(RunnerPhase::kRun);
  w.Finish();
  EXPECT_EQ(w.blobs, 1u);
  w.CrashTwice();
  // The fresh runner has no reference, but the server has the reference's outputs. Another seed means another
  // reference.
  w.MeasureChecked("b2", 2);
  EXPECT_EQ(w.blobs, 3u);
  w.Enter(RunnerPhase::kRun);
  w.Finish();
  EXPECT_EQ(w.blobs, 1u);
  w.Finish();
  w.MeasureChecked("b3", 1, 5);
  EXPECT_EQ(w.blobs, 2u);
}

TEST(ServerBatch, OutputsAreTakenOnceAndInTheirPhaseOnly) {
  ServerWorld w;
  auto outputs = [&](size_t count) {
    std::vector<Blob> blobs(count, Bytes("out"));
    w.Take(w.session.OnRunnerMessage({"", RunnerReference{w.started->run}, blobs}, w.now));
  };
  auto known = [&](const Id& batch) {  // number of outputs sent to a fresh runner
    w.CrashTwice();
    w.MeasureChecked(batch, 1);
    return w.blobs - 2;
  };
  w.MeasureChecked("b1", 1);
  outputs(1);  // too early: the runner is still loading
  w.Enter(RunnerPhase::kReference);
  EXPECT_EQ(known("b2"), 0u);
  w.Enter(RunnerPhase::kReference);
  outputs(254);  // more outputs than fit into one message with two artifacts
  w.Enter(RunnerPhase::kRun);
  EXPECT_EQ(known("b3"), 0u);
  w.Enter(RunnerPhase::kReference);
  outputs(2);
  outputs(1);
  w.Enter(RunnerPhase::kRun);
  outputs(1);
  EXPECT_EQ(known("b4"), 2u);
}

TEST(ServerBatch, AReferenceGetsASecondChanceAndOnlyItsBatchFails) {
  ServerWorld w;
  w.MeasureChecked("b1", 1);
  w.Enter(RunnerPhase::kReference);
  w.End({"was ended by signal 11", 11, false});
  EXPECT_TRUE(w.Results().empty());
  ASSERT_TRUE(w.started);
  w.Enter(RunnerPhase::kReference);
  w.Enter(RunnerPhase::kRun);
  w.Finish();  // the second try succeeds
  EXPECT_EQ(w.Results().at(0).status, TrialStatus::kOk);

  w.MeasureChecked("b2", 3);
  w.Enter(RunnerPhase::kReference);
  w.Finish(TrialStatus::kOutOfMemory);  // reported by the runner, which must not retry in the same memory
  EXPECT_EQ(w.kills, 1);
  EXPECT_TRUE(w.Results().empty());
  w.Take(w.session.OnRunnerReady(w.now));
  w.Enter(RunnerPhase::kReference);
  w.Finish(TrialStatus::kOutOfMemory);
  ASSERT_EQ(w.Results().size(), 3u);
  for (const TrialResult& r : w.Results()) EXPECT_EQ(r.status, TrialStatus::kInfrastructure);
  EXPECT_FALSE(w.started);

  w.MeasureChecked("b3", 1);
  EXPECT_TRUE(w.started);  // another batch tries the reference again
}

TEST(ServerBatch, ABatchEndsIfNoRunnerFollowsTheDeadOne) {
  for (bool reference : {false, true}) {
    ServerWorld w;
    w.MeasureChecked("b1", 2);
    w.Enter(reference ? RunnerPhase::kReference : RunnerPhase::kRun);
    w.Take(w.session.OnRunnersUnavailable("a runner cannot be killed", w.now));
    EXPECT_TRUE(w.Results().empty());
    w.Take(w.session.OnRunnerEnd({"was ended by a signal", reference ? SIGSEGV : SIGKILL, false}, w.now));
    ASSERT_EQ(w.Results().size(), 2u) << reference;
    for (const TrialResult& r : w.Results()) EXPECT_EQ(r.status, TrialStatus::kDeviceError);
    EXPECT_EQ(w.releases, 1);
  }
}

TEST(ServerBatch, ARunnerAndItsReferencesServeOneClient) {
  ServerWorld w;
  const auto measure = [&](const Id& batch, int64_t counter, const std::string& client) {
    MeasureRequest request = ServerWorld::Batch(counter, 1);
    request.claim.client = client;
    request.candidates[0].check = true;
    request.task.reference_hash = HashBytes128("reference").Hex();
    request.has_reference = true;
    w.started.reset();
    w.Say(batch, request, {Bytes("artifact"), Bytes("reference")});
  };
  const auto finish = [&](int64_t counter) {
    w.Enter(RunnerPhase::kReference);
    w.Take(w.session.OnRunnerMessage({"", RunnerReference{w.started->run}, {Bytes("out")}}, w.now));
    w.Enter(RunnerPhase::kRun);
    w.Finish();
    w.Say("end", LeaseEnd{ServerWorld::Claim(counter)});
  };
  measure("b1", 1, "one");
  ASSERT_TRUE(w.started);
  finish(1);
  measure("b2", 2, "one");
  EXPECT_EQ(w.kills, 0);
  EXPECT_EQ(w.blobs, 1u) << "the runner has the reference";
  finish(2);
  measure("b3", 3, "other");
  EXPECT_EQ(w.kills, 1);
  EXPECT_FALSE(w.started) << "before there is a fresh runner";
  w.Take(w.session.OnRunnerReady(w.now));
  ASSERT_TRUE(w.started);
  EXPECT_EQ(w.blobs, 2u) << "artifact and reference, but no outputs, which code of `one` may have made up";
  finish(3);
  measure("b4", 4, "one");
  w.Take(w.session.OnRunnerReady(w.now));
  EXPECT_EQ(w.blobs, 3u) << "its own outputs are still known";
}

TEST(ServerBatch, NumbersOfRunsCannotBeGuessed) {
  ServerWorld w;
  w.Say("b", ServerWorld::Batch(1, 3));
  const int64_t first = w.started->run;
  w.Finish();
  const int64_t second = w.started->run;
  EXPECT_GT(first, 0);
  EXPECT_GT(second, 0);
  EXPECT_GT(std::abs(second - first), 1000000) << "of 63 random bits";
  RunnerResult forged{second + 1, {}};
  w.Take(w.session.OnRunnerMessage({"", forged, {}}, w.now));
  w.Finish(TrialStatus::kLoadFailed);
  EXPECT_EQ(w.Results().at(1).status, TrialStatus::kLoadFailed);
}

TEST(ServerBatch, AnErrorOfTheDeviceEndsTheBatch) {
  ServerWorld w;
  w.Say("b", ServerWorld::Batch(1, 3));
  w.Finish();
  w.Finish(TrialStatus::kDeviceError);
  EXPECT_FALSE(w.started);
  ASSERT_EQ(w.Results().size(), 3u);
  EXPECT_EQ(w.Results()[0].status, TrialStatus::kOk);
  EXPECT_EQ(w.Results()[1].status, TrialStatus::kDeviceError);
  EXPECT_EQ(w.Results()[2].status, TrialStatus::kDeviceError);
  EXPECT_EQ(w.releases, 1);
}

TEST(ServerBatch, AfterItsLastResultARunnerIsReplaced) {
  for (bool last : {false, true}) {
    ServerWorld w;
    w.Say("b", ServerWorld::Batch(1, 2));
    RunnerResult result{w.started->run, {}, last};
    result.result.status = TrialStatus::kLoadFailed;
    w.started.reset();
    w.Take(w.session.OnRunnerMessage({"", result, {}}, w.now));
    EXPECT_EQ(w.kills, last ? 1 : 0);
    EXPECT_EQ(w.started.has_value(), !last) << "without a replacement, the next candidate starts at once";
    w.Take(w.session.OnRunnerReady(w.now));
    ASSERT_TRUE(w.started);
    w.Finish();
    ASSERT_EQ(w.Results().size(), 2u);
    EXPECT_EQ(w.Results()[0].status, TrialStatus::kLoadFailed);
    EXPECT_EQ(w.Results()[1].status, TrialStatus::kOk);
  }
}

TEST(ServerBatch, WithoutRunnersTheDeviceIsAtFault) {
  ServerWorld w;
  w.Say("b", ServerWorld::Batch(1, 2));
  w.started.reset();
  w.Take(w.session.OnRunnerEnd({"was killed", 9, false}, w.now));
  w.Take(w.session.OnRunnersUnavailable("no runner can be started", w.now));
  auto results = w.Results();
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].status, TrialStatus::kDeviceError);
  w.Take(w.session.Wake(w.now));
  EXPECT_FALSE(w.tracker.back().As<ServerReport>()->ready);
}

}  // namespace
}  // namespace autotune::rpc
