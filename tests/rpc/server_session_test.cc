// Leases, claims and deadlines of a device server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/rpc/server_world.h"

namespace autotune::rpc {
namespace {

using testing::HasSubstr;

TEST(ServerSession, RunsCandidatesOneByOneAndKeepsResultsUntilAcknowledged) {
  ServerWorld w;
  w.Say("b1", ServerWorld::Batch(1, 2));
  ASSERT_TRUE(w.started);
  EXPECT_EQ(w.started->candidate.id, "0");
  w.Finish();
  ASSERT_TRUE(w.started);
  EXPECT_EQ(w.started->candidate.id, "1");
  w.Finish();
  EXPECT_FALSE(w.started);
  EXPECT_EQ(w.Results().size(), 2u);
  EXPECT_EQ(w.releases, 1);
  w.sent.clear();
  w.now = 1500;
  w.Take(w.session.Wake(w.now));
  EXPECT_EQ(w.Results().size(), 2u);  // sent again, since no acknowledgement came
  w.Say("x", ResultAck{"b1", "0"});
  w.Say("x", ResultAck{"b1", "1"});
  w.now = 3000;
  w.sent.clear();
  w.Take(w.session.Wake(w.now));
  EXPECT_TRUE(w.Results().empty());
  // A late copy of the batch is not measured again.
  w.Say("b1", ServerWorld::Batch(1, 2));
  EXPECT_TRUE(w.sent[0].As<MeasureAccepted>());
  EXPECT_FALSE(w.started);
}

TEST(ServerSession, ALateCopyOfARequestDoesNotUndoTheNextBatch) {
  ServerWorld w;
  w.Say("b1", ServerWorld::Batch(1, 1));
  w.Finish();  // its acknowledgement is lost
  w.Say("b2", ServerWorld::Batch(1, 2));
  w.Finish();
  w.Say("b1", ServerWorld::Batch(1, 1));
  EXPECT_THAT(w.Results(), testing::IsEmpty());
  ASSERT_TRUE(w.started);
  EXPECT_EQ(w.started->candidate.id, "1") << "the second candidate of the second batch still runs";
  EXPECT_EQ(w.kills, 0);
}

TEST(ServerSession, AHigherTokenFencesOffTheOlderLease) {
  ServerWorld w;
  w.Say("b1", ServerWorld::Batch(1, 2));
  ASSERT_TRUE(w.started);
  w.Say("b2", ServerWorld::Batch(2, 1));
  EXPECT_EQ(w.kills, 1);  // the older lease's candidate must not run beside the newer one's
  w.Take(w.session.OnRunnerReady(w.now));
  ASSERT_TRUE(w.started);
  w.Say("b1", ServerWorld::Batch(1, 2));
  EXPECT_THAT(w.RefusalText(), HasSubstr("stale_lease"));
  w.Finish();
  EXPECT_EQ(w.Results().size(), 1u);
}

// Otherwise one message would make the tokens of all later leases too low.
TEST(ServerSession, ATokenThatNoTrackerGivesOutIsRefused) {
  ServerWorld w;
  MeasureRequest request = ServerWorld::Batch(1, 1);
  for (const Token& token : {Token{INT64_MAX, 1}, Token{(int64_t{1} << 53) + 1, 1}, Token{-1, 1}, Token{1, -1}}) {
    request.claim.token = token;
    w.Say("b", request);
    EXPECT_THAT(w.RefusalText(), HasSubstr("malformed")) << token.epoch;
  }
  w.Say("b1", ServerWorld::Batch(1, 1));
  EXPECT_TRUE(w.started);
  const int64_t late = (int64_t{1} << 53) + 5;  // an epoch that the server's tracker has reached nevertheless
  w.SayAs(ServerWorld::kTracker, ReportReply{late, 1000, {}});
  request.claim.token = {late, 1};
  w.Say("b2", request);
  EXPECT_EQ(w.RefusalText(), "");
}

// A restarted server has the same id, and has forgotten the tokens that it has seen.
TEST(ServerSession, AGrantOfAnEarlierIncarnationIsLost) {
  ServerWorld w;
  MeasureRequest request = ServerWorld::Batch(1, 1);
  request.claim.incarnation = "i0";
  w.Say("b", request);
  EXPECT_THAT(w.RefusalText(), HasSubstr("lease_lost: this lease has ended: the server was restarted"));
  EXPECT_FALSE(w.session.Busy());
  request.claim.incarnation = "i1";
  w.Say("b", request);
  EXPECT_EQ(w.RefusalText(), "");
  EXPECT_TRUE(w.session.Busy());
}

TEST(ServerSession, OnlyTheHolderAcknowledges) {
  ServerWorld w;
  w.Say("b1", ServerWorld::Batch(1, 1));
  w.Finish();
  auto resent = [&] {
    w.sent.clear();
    w.Pass(1500);
    return w.Results().size();
  };
  w.SayAs({.peer = "stranger", .roles = kUnauthenticated}, ResultAck{"b1", "0"});
  EXPECT_GT(resent(), 0u);
  w.Say("b1", ResultAck{"b1", "0"});
  EXPECT_EQ(resent(), 0u);
}

TEST(ServerSession, AnEndedOrExpiredLeaseIsLost) {
  ServerWorld w;
  w.Say("x", ClientBeat{ServerWorld::Claim(1), ""});
  EXPECT_TRUE(w.sent[0].As<ServerBeat>());
  EXPECT_TRUE(w.session.Busy());
  w.Say("x", LeaseEnd{ServerWorld::Claim(1)});
  EXPECT_FALSE(w.session.Busy());
  w.Say("x", ClientBeat{ServerWorld::Claim(1), ""});
  EXPECT_THAT(w.RefusalText(), HasSubstr("lease_lost"));
  w.Say("b", ServerWorld::Batch(2, 1));
  w.Pass(9000);
  w.Say("x", ClientBeat{ServerWorld::Claim(2), "b"});
  w.Pass(9900);
  EXPECT_TRUE(w.session.Busy());
  w.Pass(100);
  EXPECT_FALSE(w.session.Busy());
  EXPECT_GE(w.kills, 1);
}

TEST(ServerSession, TheTrackerRevokes) {
  ServerWorld w;
  w.Say("b", ServerWorld::Batch(1, 1));
  w.SayAs(ServerWorld::kTracker, ReportReply{1, 1000, {"another"}});
  EXPECT_TRUE(w.session.Busy());
  w.SayAs(ServerWorld::kTracker, ReportReply{1, 1000, {"lease1"}});
  EXPECT_FALSE(w.session.Busy());
  EXPECT_EQ(w.kills, 1);
  EXPECT_TRUE(w.tracker.back().As<ServerReport>()->leases.empty());
}

TEST(ServerSession, DeadlinesByPhase) {
  ServerWorld w;
  w.Say("b", ServerWorld::Batch(1, 2));
  auto pass = [&](int64_t ms) {
    for (; ms > 0; ms -= 100) {
      w.Pass(100);
      if (w.now % 5000 == 0) w.Say("x", ClientBeat{ServerWorld::Claim(1), "b"});
    }
  };
  pass(29000);
  w.Enter(RunnerPhase::kRun);
  pass(9900);
  EXPECT_EQ(w.kills, 0);
  w.Pass(100);
  EXPECT_EQ(w.kills, 1);
  ASSERT_EQ(w.Results().size(), 1u);
  EXPECT_EQ(w.Results()[0].status, TrialStatus::kRunTimedOut);
  EXPECT_EQ(w.Results()[0].error, "ran longer than 10 s");
  // A late message of the killed runner changes nothing.
  w.Take(w.session.OnRunnerReady(w.now));
  EXPECT_EQ(w.started->candidate.id, "1");
  w.Take(w.session.OnRunnerMessage({"", RunnerResult{w.started->run - 1, {}}, {}}, w.now));
  EXPECT_EQ(w.Results().size(), 1u);
}

// A device that must go to a waiting client starts nothing more, even if its client sends another batch.
TEST(ServerSession, NothingStartsForALeaseThatMustYield) {
  ServerWorld w;
  w.Say("b1", ServerWorld::Batch(1, 3));
  w.Enter(RunnerPhase::kRun);
  w.Pass(2000);
  const HeldLease held = w.tracker.back().As<ServerReport>()->leases.at(0);
  EXPECT_GT(held.deadline_ms, 0);
  const auto reply = [&](std::vector<Id> yield) {
    w.SayAs(ServerWorld::kTracker, ReportReply{.epoch = 1, .yield = std::move(yield)});
  };
  w.sent.clear();
  reply({"lease of another"});
  EXPECT_TRUE(w.Results().empty());
  reply({"lease1"});
  EXPECT_TRUE(w.Results().empty()) << "the running candidate goes on";
  EXPECT_EQ(w.kills, 0);
  w.Finish();
  const std::vector<TrialResult> results = w.Results();
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[0].status, TrialStatus::kOk);
  EXPECT_EQ(results[1].status, TrialStatus::kCancelled);
  EXPECT_EQ(results[2].status, TrialStatus::kCancelled);
  w.Pass(1000);
  EXPECT_EQ(w.tracker.back().As<ServerReport>()->leases.at(0).deadline_ms, 0) << "nothing runs";

  w.Say("b2", ServerWorld::Batch(1, 2));
  EXPECT_FALSE(w.started);
  EXPECT_THAT(w.Results(), testing::Each(testing::Field(&TrialResult::status, TrialStatus::kCancelled)));
  reply({});  // nobody waits any more
  w.Say("b3", ServerWorld::Batch(1, 1));
  EXPECT_TRUE(w.started);
}

// After the server was stopped or suspended, it does not apply deadlines before it has read the result that may have
// arrived meanwhile.
TEST(ServerSession, TimeInWhichTheServerStoodStillIsNotCharged) {
  ServerWorld w;
  w.Say("b", ServerWorld::Batch(1, 1));
  w.Enter(RunnerPhase::kRun);
  w.Pass(5000);
  w.now += 60000;
  w.Take(w.session.Wake(w.now));
  EXPECT_EQ(w.kills, 0);
  EXPECT_TRUE(w.session.Busy());
  w.Finish();
  ASSERT_EQ(w.Results().size(), 1u);
  EXPECT_EQ(w.Results()[0].status, TrialStatus::kOk);
}

// After the server was stopped, the candidate gets the rest of its time, and no more.
TEST(ServerSession, AfterAStopDeadlinesGoOn) {
  ServerWorld w;
  w.Say("b", ServerWorld::Batch(1, 1));
  w.Enter(RunnerPhase::kRun);
  w.Pass(5000);
  w.now += 60000;
  w.Say("x", ClientBeat{ServerWorld::Claim(1), "b"});
  w.Pass(4900);
  EXPECT_EQ(w.kills, 0);
  w.Pass(200);
  EXPECT_EQ(w.kills, 1);
}

// A spare runner cannot be killed, and the pool reports this while the active runner continues. When the active runner
// ends, the pool reports nothing more, so the session ends the batch.
// Code of a candidate runs in the runner. It must not touch the measurements of other clients.
// The rest of the batch is not at fault, and each further try would cost its time.
// A runner whose device has failed sends its result and is killed before the next candidate. Any other runner that
// sends a result keeps running.
TEST(ServerSession, NonsensicalBatchesAreRefused) {
  ServerWorld w;
  auto refusal = [&](auto change, std::vector<Blob> blobs = {Bytes("artifact")}) {
    MeasureRequest request = ServerWorld::Batch(1, 2);
    change(request);
    w.Say("b", request, std::move(blobs));
    return w.RefusalText();
  };
  EXPECT_EQ(refusal([](auto&) {}), "");
  w.Say("x", LeaseEnd{ServerWorld::Claim(1)});
  auto at = [&, n = 1](auto change, std::vector<Blob> blobs = {Bytes("artifact")}) mutable {
    ++n;
    return refusal([&](MeasureRequest& r) { r.claim = ServerWorld::Claim(n), change(r); }, std::move(blobs));
  };
  EXPECT_THAT(at([](auto& r) { r.candidates.clear(); }), HasSubstr("malformed"));
  EXPECT_THAT(at([](auto& r) { r.candidates[1].id = "0"; }), HasSubstr("occurs twice"));
  EXPECT_THAT(at([](auto& r) { r.candidates[1].blob = 1; }), HasSubstr("no such blob"));
  EXPECT_THAT(at([](auto& r) { r.candidates[1].blob = -1; }), HasSubstr("no such blob"));
  EXPECT_THAT(at([](auto& r) { r.candidates[1].run_seconds = 1e9; }), HasSubstr("out of range"));
  EXPECT_THAT(at([](auto& r) { r.candidates[1].repeats = 0; }), HasSubstr("out of range"));
  EXPECT_THAT(at([](auto& r) { r.candidates[1].cold_bytes = -2; }), HasSubstr("out of range"));
  EXPECT_THAT(at([](auto& r) { r.task.rtol = -1; }), HasSubstr("out of range"));
  EXPECT_THAT(at([](auto& r) { r.has_reference = true; }, {}), HasSubstr("has_reference"));
  EXPECT_THAT(at([](auto&) {}, std::vector<Blob>(65, Bytes("a"))), HasSubstr("too_large"));
  EXPECT_THAT(at([](auto&) {}, {Bytes(std::string(kMaxBlobBytes + 1, 'x'))}), HasSubstr("too_large"));
  EXPECT_THAT(at([](auto&) {}, std::vector<Blob>(3, Bytes(std::string(kMaxBlobBytes - 1, 'x')))),
              HasSubstr("too_large"));
  w.Say("x", StatusRequest{});
  EXPECT_THAT(w.RefusalText(), HasSubstr("a device server does not take a status_request"));
}

// A server whose runners end with it reported once more, so the tracker offered its device until it was silent for
// long.
TEST(ServerSession, AfterTheGoodbyeComesNoReport) {
  ServerWorld w;
  w.Pass(1);
  ASSERT_FALSE(w.tracker.empty());
  w.Take(w.session.OnShutdown(w.now));
  w.Take(w.session.OnRunnersUnavailable("killed", w.now));
  w.Take(w.session.OnTrackerConnected(w.now));
  w.Pass(5000);
  EXPECT_TRUE(w.tracker.back().As<ServerGoodbye>());
}

}  // namespace
}  // namespace autotune::rpc
