// How a device server has its runner load the artifacts of later candidates, and what it does if that fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/rpc/server_world.h"

namespace autotune::rpc {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Statuses = std::map<std::string, TrialStatus>;

// A server whose runner loads up to `ahead` artifacts beside a candidate. Candidate i has artifact "a<i>".
struct AheadWorld : ServerWorld {
  explicit AheadWorld(int ahead, int candidates)
      : ServerWorld({.server = kServer, .incarnation = "i1", .device = {.key = "gpu"}, .ahead = ahead}) {
    MeasureRequest request = Batch(1, candidates);
    std::vector<Blob> artifacts;
    for (int i = 0; i < candidates; ++i) {
      request.candidates[static_cast<size_t>(i)].blob = i;
      artifacts.push_back(Bytes("a" + std::to_string(i)));
    }
    Say("b", std::move(request), std::move(artifacts));
  }
  std::string Id() const { return started ? started->candidate.id : ""; }
  // Lets `ms` pass for the started candidate. If it was killed, a fresh runner is ready afterwards.
  void Hang(int64_t ms) {
    const int killed = kills;
    started.reset();
    for (; ms > 0; ms -= 1000) {
      SayAs(kPeer, ClientBeat{Claim(1), "b"});
      Pass(1000);
    }
    if (kills > killed) Take(session.OnRunnerReady(now));
  }
};

TEST(ServerAhead, EachArtifactIsSentOnce) {
  AheadWorld w(2, 6);
  EXPECT_THAT(w.ahead, ElementsAre("a1", "a2"));
  w.Finish();
  EXPECT_EQ(w.Id(), "1");
  EXPECT_THAT(w.ahead, IsEmpty()) << "the runner has the next one";
  w.Finish();
  EXPECT_EQ(w.Id(), "2");
  EXPECT_THAT(w.ahead, ElementsAre("a3", "a4"));
  w.Finish();
  w.Finish();
  EXPECT_EQ(w.Id(), "4");
  EXPECT_THAT(w.ahead, ElementsAre("a5")) << "there are no more";
  w.Finish();
  EXPECT_THAT(w.ahead, IsEmpty());
}

TEST(ServerAhead, NothingIsSentToACpusRunner) {
  AheadWorld w(0, 3);
  EXPECT_THAT(w.ahead, IsEmpty());
  w.Finish();
  EXPECT_THAT(w.ahead, IsEmpty());
}

TEST(ServerAhead, AFreshRunnerGetsThemAgainButARepetitionRunsAlone) {
  AheadWorld w(3, 4);
  EXPECT_THAT(w.ahead, ElementsAre("a1", "a2", "a3"));
  w.Enter(RunnerPhase::kAhead);
  w.Enter(RunnerPhase::kTime);
  w.End({"was ended by signal 11", SIGSEGV, false});
  EXPECT_EQ(w.Id(), "1") << "the candidate itself crashed, when all was loaded";
  EXPECT_THAT(w.ahead, ElementsAre("a2", "a3"));
  for (int i = 0; i < 3; ++i) w.Finish();
  w.Take(w.session.OnRunnerReady(w.now));
  EXPECT_EQ(w.Id(), "0");
  EXPECT_THAT(w.ahead, IsEmpty());
}

TEST(ServerAhead, ACrashWhileItLoadsIsNotChargedToTheCandidate) {
  for (const RunnerPhase phase : {RunnerPhase::kLoad, RunnerPhase::kRun, RunnerPhase::kAhead}) {
    AheadWorld w(1, 3);
    w.Enter(phase);
    w.End({"was ended by signal 11", SIGSEGV, false});
    EXPECT_EQ(w.Id(), "0") << "it starts again at once";
    EXPECT_THAT(w.ahead, IsEmpty()) << "nothing is loaded beside it";
    w.Finish();
    for (const std::string id : {"1", "2", "1"}) {  // the second time alone
      EXPECT_EQ(w.Id(), id);
      EXPECT_THAT(w.ahead, IsEmpty());
      w.Enter(RunnerPhase::kRun);
      if (id == "1") {
        w.End({"was ended by signal 11", SIGSEGV, false});
      } else {
        w.Finish();
        w.Take(w.session.OnRunnerReady(w.now));
      }
    }
    EXPECT_EQ(w.Statuses(),
              (Statuses{{"0", TrialStatus::kOk}, {"1", TrialStatus::kRunCrashed}, {"2", TrialStatus::kOk}}));
  }
}

TEST(ServerAhead, AKillWhileItLoadsIsNotChargedEither) {
  AheadWorld w(1, 2);
  w.Enter(RunnerPhase::kAhead);
  w.End({"was killed", SIGKILL, true});
  EXPECT_EQ(w.Id(), "0");
  w.Finish();
  w.Finish();
  EXPECT_EQ(w.Statuses(), (Statuses{{"0", TrialStatus::kOk}, {"1", TrialStatus::kOk}}));
}

// The deadlines are 30 s to load and 10 s to run.
TEST(ServerAhead, LoadingHasADeadlineOfItsOwn) {
  AheadWorld w(1, 2);
  w.Enter(RunnerPhase::kRun);
  w.Pass(8000);
  w.Enter(RunnerPhase::kAhead);
  const RunnerRequest request = *w.started;
  w.Hang(28000);
  EXPECT_EQ(w.kills, 0);
  w.started = request;
  w.Enter(RunnerPhase::kTime);
  w.Hang(9000);
  EXPECT_EQ(w.kills, 0) << "the time of others was counted";
  w.Hang(2000);
  EXPECT_EQ(w.kills, 1);
  EXPECT_EQ(w.Statuses(), (Statuses{{"0", TrialStatus::kRunTimedOut}})) << "it used its own time up";
}

TEST(ServerAhead, AHangWhileItLoadsIsNotChargedToTheCandidate) {
  AheadWorld w(1, 2);
  w.Enter(RunnerPhase::kAhead);
  w.Hang(31000);
  EXPECT_EQ(w.kills, 1);
  EXPECT_TRUE(w.Results().empty());
  EXPECT_EQ(w.Id(), "0");
  EXPECT_THAT(w.ahead, IsEmpty());
  w.Enter(RunnerPhase::kAhead);  // from a runner that loads nothing: no longer deadline
  w.Hang(11000);
  EXPECT_EQ(w.kills, 1) << "kLoad has 30 s";
  w.Hang(20000);
  EXPECT_EQ(w.kills, 2);
  EXPECT_EQ(w.Statuses(), (Statuses{{"0", TrialStatus::kLoadFailed}}));
}

}  // namespace
}  // namespace autotune::rpc
