// How a ServerSession ends: after what it runs, or since nobody has leased its device for long.
#include <gtest/gtest.h>

#include "tests/rpc/server_world.h"

namespace autotune::rpc {
namespace {

bool SaidGoodbye(const ServerWorld& w) { return !w.tracker.empty() && w.tracker.back().As<ServerGoodbye>(); }

TEST(ServerLeave, FinishesTheRunningCandidateAndReturnsTheRest) {
  ServerWorld w;
  w.Say("b1", ServerWorld::Batch(1, 3));
  w.Enter(RunnerPhase::kRun);
  w.Take(w.session.OnShutdown(w.now));
  EXPECT_FALSE(w.session.HasEnded());
  EXPECT_EQ(w.kills, 0);
  EXPECT_FALSE(w.tracker.back().As<ServerReport>()->ready);  // so that the tracker grants it to nobody
  w.Finish();
  EXPECT_FALSE(w.started);
  using S = TrialStatus;
  EXPECT_EQ(w.Statuses(), (std::map<std::string, S>{{"0", S::kOk}, {"1", S::kCancelled}, {"2", S::kCancelled}}));
  w.sent.clear();
  w.Pass(1500);  // the results were lost
  EXPECT_EQ(w.Results().size(), 3u);
  for (const char* candidate : {"0", "1"}) w.Say("b1", ResultAck{"b1", candidate});
  w.Pass(100);
  EXPECT_FALSE(w.session.HasEnded());
  w.Say("b1", ResultAck{"b1", "2"});
  w.Pass(0);
  EXPECT_TRUE(w.session.HasEnded());
  EXPECT_TRUE(SaidGoodbye(w));
}

TEST(ServerLeave, EndNowDoesNotWait) {
  ServerWorld w;
  w.Say("b1", ServerWorld::Batch(1, 3));
  w.Enter(RunnerPhase::kRun);
  w.Take(w.session.OnShutdown(w.now));
  w.Take(w.session.EndNow(w.now));
  EXPECT_TRUE(w.session.HasEnded());
  EXPECT_TRUE(SaidGoodbye(w));
  EXPECT_EQ(w.kills, 1);
  EXPECT_TRUE(w.Results().empty());
}

TEST(ServerLeave, AClientThatAcknowledgesNothingDoesNotKeepTheServer) {
  ServerWorld w;
  w.Say("b1", ServerWorld::Batch(1, 1));
  w.Take(w.session.OnShutdown(w.now));
  w.Finish();
  for (int i = 0; i < 20 && !w.session.HasEnded(); ++i) {
    w.Pass(1000);
    w.Say("x", ClientBeat{ServerWorld::Claim(1), "b1"});  // renews the lease
  }
  EXPECT_TRUE(w.session.HasEnded());
}

TEST(ServerLeave, TakesNoFurtherWork) {
  ServerWorld w;
  w.Say("b1", ServerWorld::Batch(1, 1));
  w.Take(w.session.OnShutdown(w.now));
  w.Say("b2", ServerWorld::Batch(2, 1));  // of the next lease
  EXPECT_EQ(w.RefusalText(), "lease_lost: the server is shutting down");
  w.Finish();
  w.Say("b3", ServerWorld::Batch(1, 2));  // the client has b1's results, and did not know
  EXPECT_EQ(w.Statuses(),
            (std::map<std::string, TrialStatus>{{"0", TrialStatus::kCancelled}, {"1", TrialStatus::kCancelled}}));
  w.Say("b3", LeaseEnd{ServerWorld::Claim(1)});
  w.Pass(0);
  EXPECT_TRUE(w.session.HasEnded());
}

TEST(ServerLeave, AnswersTheCallThatRuns) {
  ServerWorld w;
  w.Say("r1", Call{.claim = ServerWorld::Claim(1), .session = "s", .number = 1, .seconds = 10});
  ASSERT_TRUE(w.call);
  w.Take(w.session.OnShutdown(w.now));
  w.Pass(1000);
  EXPECT_FALSE(w.session.HasEnded());
  w.sent.clear();
  RunnerResult result{*w.call, {}};
  result.result.status = TrialStatus::kOk;
  w.Take(w.session.OnRunnerMessage({"", result, {Bytes("values")}}, w.now));
  ASSERT_EQ(w.sent.size(), 1u);
  EXPECT_EQ(w.sent[0].As<CallReply>()->status, TrialStatus::kOk);
  w.Say("r2", Call{.claim = ServerWorld::Claim(1), .session = "s", .number = 2, .seconds = 10});
  EXPECT_EQ(w.sent.back().As<CallReply>()->status, TrialStatus::kCancelled);
  EXPECT_FALSE(w.session.HasEnded());  // the client may not have the replies yet
  w.Say("r3", LeaseEnd{ServerWorld::Claim(1)});
  w.Pass(0);
  EXPECT_TRUE(w.session.HasEnded());
}

ServerSession::Options IdleExit(int64_t ms) {
  return {.server = ServerWorld::kServer, .incarnation = "i1", .device = {.key = "cpu"}, .idle_exit_ms = ms};
}

TEST(ServerLeave, EndsWithoutALeaseForLong) {
  ServerWorld w(IdleExit(5000));
  w.Pass(4999);
  EXPECT_FALSE(w.session.HasEnded());
  w.Pass(2);
  EXPECT_TRUE(w.session.HasEnded());
  EXPECT_EQ(w.session.WhyLeaving(), "no lease for 5 s");
  EXPECT_TRUE(SaidGoodbye(w));
  ServerWorld other(IdleExit(0));
  other.Pass(100000);
  EXPECT_FALSE(other.session.HasEnded());
}

TEST(ServerLeave, ALeasePostponesTheIdleExit) {
  ServerWorld w(IdleExit(5000));
  w.Pass(3000);
  for (int i = 0; i < 4; ++i) {
    w.Say("x", ClientBeat{ServerWorld::Claim(1), ""});
    w.Pass(4000);
  }
  EXPECT_FALSE(w.session.HasEnded());
  w.Say("x", LeaseEnd{ServerWorld::Claim(1)});
  w.Pass(4000);
  EXPECT_FALSE(w.session.HasEnded());
  w.Pass(1001);
  EXPECT_TRUE(w.session.HasEnded());
}

}  // namespace
}  // namespace autotune::rpc
