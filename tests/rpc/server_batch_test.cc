// How a device server works on a batch: blame, references, runners.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/rpc/server_world.h"

namespace autotune::rpc {
namespace {

using testing::HasSubstr;

TEST(ServerBatch, CrashesAreChargedKillsFromOutsideAreNot) {
  ServerWorld w;
  w.Say("b", ServerWorld::Batch(1, 2));
  auto phase = [&] {
    w.Take(w.session.OnRunnerMessage({"", RunnerProgress{w.started->run, RunnerPhase::kRun}, {}}, w.now));
  };
  phase();
  w.started.reset();
  w.Take(w.session.OnRunnerEnd({"was killed", 9, false}, w.now));
  EXPECT_TRUE(w.Results().empty());
  w.Take(w.session.OnRunnerReady(w.now));
  ASSERT_TRUE(w.started);
  EXPECT_EQ(w.started->candidate.id, "0");  // the same candidate starts again
  phase();
  w.Take(w.session.OnRunnerEnd({"was ended by signal 11", 11, false}, w.now));
  w.Take(w.session.OnRunnerReady(w.now));
  phase();
  // The operating system killed a process for lack of memory. Only the second kill is charged to the candidate.
  w.End({"was killed", 9, true});
  EXPECT_EQ(w.Results().size(), 1u);
  phase();
  w.Take(w.session.OnRunnerEnd({"was killed", 9, true}, w.now));
  auto results = w.Results();
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].status, TrialStatus::kRunCrashed);
  EXPECT_EQ(results[1].status, TrialStatus::kOutOfMemory);
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
  w.Enter(RunnerPhase::kRun);
  w.End({"was ended by signal 11", 11, false});
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
    w.Enter(RunnerPhase::kRun);
    w.End({"was ended by signal 11", 11, false});
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
  w.Finish(TrialStatus::kWrongAnswer);
  EXPECT_EQ(w.Results().at(1).status, TrialStatus::kWrongAnswer);
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
    result.result.status = TrialStatus::kRunCrashed;
    w.started.reset();
    w.Take(w.session.OnRunnerMessage({"", result, {}}, w.now));
    EXPECT_EQ(w.kills, last ? 1 : 0);
    EXPECT_EQ(w.started.has_value(), !last) << "without a replacement, the next candidate starts at once";
    w.Take(w.session.OnRunnerReady(w.now));
    ASSERT_TRUE(w.started);
    w.Finish();
    ASSERT_EQ(w.Results().size(), 2u);
    EXPECT_EQ(w.Results()[0].status, TrialStatus::kRunCrashed);
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
