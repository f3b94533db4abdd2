#include "rpc/server_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "support/hash.h"
#include "tests/rpc/bytes.h"
#include "tests/rpc/pass_time.h"

namespace autotune::rpc {
namespace {

using testing::HasSubstr;

struct World {
  World() : session({.server = "s1", .incarnation = "i1", .device = {.key = "cpu"}}) { Take(session.OnRunnerReady(0)); }
  void Take(ServerActions actions) {
    for (auto& action : actions) {
      if (auto* a = std::get_if<ToPeer>(&action)) sent.push_back(a->message);
      if (auto* a = std::get_if<ToTracker>(&action)) tracker.push_back(a->message);
      if (auto* a = std::get_if<StartCandidate>(&action)) {
        started = *a->request.As<RunnerRequest>();
        blobs = a->request.blobs.size();
      }
      if (std::get_if<KillRunner>(&action)) ++kills;
      if (std::get_if<AcquireHost>(&action)) Take(session.OnHostAcquired(now));
      if (std::get_if<ReleaseHost>(&action)) ++releases;
    }
  }
  // Returns a claim of lease number `counter`.
  static LeaseClaim Claim(int64_t counter) {
    return {"lease" + std::to_string(counter), {1, counter}, 10000, "c", "c", "", ""};
  }
  static MeasureRequest Batch(int64_t counter, int candidates) {
    MeasureRequest request;
    request.claim = Claim(counter);
    for (int i = 0; i < candidates; ++i) {
      Candidate c;
      c.id = std::to_string(i);
      c.check = false;
      request.candidates.push_back(c);
    }
    return request;
  }
  void Say(const Id& request, Body body, std::vector<Blob> blobs = {Bytes("artifact")}) {
    sent.clear();
    Take(session.On("peer", {request, std::move(body), std::move(blobs)}, now));
  }
  void Pass(int64_t ms) {
    test::PassTime(session, now, ms, [this](auto actions) { Take(std::move(actions)); });
  }
  void Enter(RunnerPhase phase) { Take(session.OnRunnerMessage({"", RunnerProgress{started->run, phase}, {}}, now)); }
  void End(RunnerEnd end) {
    Take(session.OnRunnerEnd(end, now));
    started.reset();
    Take(session.OnRunnerReady(now));
  }
  // Sends a batch whose candidates are compared with a reference.
  void MeasureChecked(const Id& id, int candidates, int64_t seed = 0) {
    MeasureRequest request = Batch(1, candidates);
    for (Candidate& c : request.candidates) c.check = true;
    request.task.reference_hash = HashBytes128("reference").Hex();
    request.task.seed = seed;
    request.has_reference = true;
    Say(id, request, {Bytes("artifact"), Bytes("reference")});
  }
  void Finish(TrialStatus status = TrialStatus::kOk) {
    RunnerResult result{started->run, {}};
    result.result.status = status;
    started.reset();
    Take(session.OnRunnerMessage({"", result, {}}, now));
  }
  std::string RefusalText() const {
    for (const Message& m : sent) {
      if (auto* refusal = m.As<Refusal>()) return refusal->code + ": " + refusal->text;
    }
    return "";
  }
  std::vector<TrialResult> Results() const {
    std::vector<TrialResult> results;
    for (const Message& m : sent) {
      if (auto* report = m.As<ResultReport>()) results.push_back(report->result);
    }
    return results;
  }

  ServerSession session;
  int64_t now = 0;
  std::vector<Message> sent, tracker;
  std::optional<RunnerRequest> started;
  size_t blobs = 0;  // blobs of the started request
  int kills = 0, releases = 0;
};

TEST(ServerSession, RunsCandidatesOneByOneAndKeepsResultsUntilAcknowledged) {
  World w;
  w.Say("b1", World::Batch(1, 2));
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
  w.Say("b1", World::Batch(1, 2));
  EXPECT_TRUE(w.sent[0].As<MeasureAccepted>());
  EXPECT_FALSE(w.started);
}

TEST(ServerSession, AHigherTokenFencesOffTheOlderLease) {
  World w;
  w.Say("b1", World::Batch(1, 2));
  ASSERT_TRUE(w.started);
  w.Say("b2", World::Batch(2, 1));
  EXPECT_EQ(w.kills, 1);  // the older lease's candidate must not run beside the newer one's
  w.Take(w.session.OnRunnerReady(w.now));
  ASSERT_TRUE(w.started);
  w.Say("b1", World::Batch(1, 2));
  EXPECT_THAT(w.RefusalText(), HasSubstr("stale_lease"));
  w.Finish();
  EXPECT_EQ(w.Results().size(), 1u);
}

// Otherwise one message would make the tokens of all later leases too low.
TEST(ServerSession, ATokenThatNoTrackerGivesOutIsRefused) {
  World w;
  MeasureRequest request = World::Batch(1, 1);
  for (const Token& token : {Token{INT64_MAX, 1}, Token{(int64_t{1} << 53) + 1, 1}, Token{-1, 1}, Token{1, -1}}) {
    request.claim.token = token;
    w.Say("b", request);
    EXPECT_THAT(w.RefusalText(), HasSubstr("malformed")) << token.epoch;
  }
  w.Say("b1", World::Batch(1, 1));
  EXPECT_TRUE(w.started);
  const int64_t late = (int64_t{1} << 53) + 5;  // an epoch that the server's tracker has reached nevertheless
  w.Take(w.session.OnTracker({"", ReportReply{late, 1000, {}}, {}}, w.now));
  request.claim.token = {late, 1};
  w.Say("b2", request);
  EXPECT_EQ(w.RefusalText(), "");
}

TEST(ServerSession, OnlyTheHolderAcknowledges) {
  World w;
  w.Say("b1", World::Batch(1, 1));
  w.Finish();
  auto resent = [&] {
    w.sent.clear();
    w.Pass(1500);
    return w.Results().size();
  };
  w.Take(w.session.On("stranger", {"b1", ResultAck{"b1", "0"}, {}}, w.now));
  EXPECT_GT(resent(), 0u);
  w.Say("b1", ResultAck{"b1", "0"});
  EXPECT_EQ(resent(), 0u);
}

TEST(ServerSession, AnEndedOrExpiredLeaseIsLost) {
  World w;
  w.Say("x", ClientBeat{World::Claim(1), ""});
  EXPECT_TRUE(w.sent[0].As<ServerBeat>());
  EXPECT_TRUE(w.session.Busy());
  w.Say("x", LeaseEnd{World::Claim(1)});
  EXPECT_FALSE(w.session.Busy());
  w.Say("x", ClientBeat{World::Claim(1), ""});
  EXPECT_THAT(w.RefusalText(), HasSubstr("lease_lost"));
  w.Say("b", World::Batch(2, 1));
  w.Pass(9000);
  w.Say("x", ClientBeat{World::Claim(2), "b"});
  w.Pass(9900);
  EXPECT_TRUE(w.session.Busy());
  w.Pass(100);
  EXPECT_FALSE(w.session.Busy());
  EXPECT_GE(w.kills, 1);
}

TEST(ServerSession, TheTrackerRevokes) {
  World w;
  w.Say("b", World::Batch(1, 1));
  w.Take(w.session.OnTracker({"", ReportReply{1, 1000, {"another"}}, {}}, w.now));
  EXPECT_TRUE(w.session.Busy());
  w.Take(w.session.OnTracker({"", ReportReply{1, 1000, {"lease1"}}, {}}, w.now));
  EXPECT_FALSE(w.session.Busy());
  EXPECT_EQ(w.kills, 1);
  EXPECT_TRUE(w.tracker.back().As<ServerReport>()->leases.empty());
}

TEST(ServerSession, DeadlinesByPhase) {
  World w;
  w.Say("b", World::Batch(1, 2));
  auto pass = [&](int64_t ms) {
    for (; ms > 0; ms -= 100) {
      w.Pass(100);
      if (w.now % 5000 == 0) w.Say("x", ClientBeat{World::Claim(1), "b"});
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

TEST(ServerSession, CrashesAreChargedKillsFromOutsideAreNot) {
  World w;
  w.Say("b", World::Batch(1, 2));
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

TEST(ServerSession, ReferencesAreKeptByTheirHash) {
  World w;
  MeasureRequest request = World::Batch(1, 1);
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

TEST(ServerSession, AnothersOutOfMemoryIsNotCharged) {
  World w;
  w.Say("b", World::Batch(1, 1));
  w.End({"was killed", 9, true});
  ASSERT_TRUE(w.started);
  w.Finish();
  ASSERT_EQ(w.Results().size(), 1u);
  EXPECT_EQ(w.Results()[0].status, TrialStatus::kOk);
}

// A device that must go to a waiting client starts nothing more, even if its client sends another batch.
TEST(ServerSession, NothingStartsForALeaseThatMustYield) {
  World w;
  w.Say("b1", World::Batch(1, 3));
  w.Enter(RunnerPhase::kRun);
  w.Pass(2000);
  const HeldLease held = w.tracker.back().As<ServerReport>()->leases.at(0);
  EXPECT_GT(held.deadline_ms, 0);
  const auto reply = [&](std::vector<Id> yield) {
    w.Take(w.session.OnTracker({"", ReportReply{.epoch = 1, .yield = std::move(yield)}, {}}, w.now));
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

  w.Say("b2", World::Batch(1, 2));
  EXPECT_FALSE(w.started);
  EXPECT_THAT(w.Results(), testing::Each(testing::Field(&TrialResult::status, TrialStatus::kCancelled)));
  reply({});  // nobody waits any more
  w.Say("b3", World::Batch(1, 1));
  EXPECT_TRUE(w.started);
}

// After the server was stopped or suspended, it does not apply deadlines before it has read the result that may have
// arrived meanwhile.
TEST(ServerSession, TimeInWhichTheServerStoodStillIsNotCharged) {
  World w;
  w.Say("b", World::Batch(1, 1));
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
  World w;
  w.Say("b", World::Batch(1, 1));
  w.Enter(RunnerPhase::kRun);
  w.Pass(5000);
  w.now += 60000;
  w.Say("x", ClientBeat{World::Claim(1), "b"});
  w.Pass(4900);
  EXPECT_EQ(w.kills, 0);
  w.Pass(200);
  EXPECT_EQ(w.kills, 1);
}

TEST(ServerSession, ARunnerThatStartsAnewGetsNoNewDeadline) {
  World w;
  w.Say("b", World::Batch(1, 1));
  w.Enter(RunnerPhase::kRun);
  for (int second = 0; second < 12; ++second) {
    w.Say("x", ClientBeat{World::Claim(1), "b"});
    w.Pass(1000);
    if (w.kills) break;
    w.Enter(RunnerPhase::kLoad);
    w.Enter(RunnerPhase::kReference);
    w.Enter(RunnerPhase::kRun);
  }
  EXPECT_EQ(w.kills, 1);
  EXPECT_EQ(w.Results().at(0).status, TrialStatus::kRunTimedOut);
}

TEST(ServerSession, ARunnerGetsAReferenceOnce) {
  World w;
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

TEST(ServerSession, OutputsAreTakenOnceAndInTheirPhaseOnly) {
  World w;
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

TEST(ServerSession, AReferenceGetsASecondChanceAndOnlyItsBatchFails) {
  World w;
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

// A spare runner cannot be killed, and the pool reports this while the active runner continues. When the active runner
// ends, the pool reports nothing more, so the session ends the batch.
TEST(ServerSession, ABatchEndsIfNoRunnerFollowsTheDeadOne) {
  for (bool reference : {false, true}) {
    World w;
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

// A runner whose device has failed sends its result and is killed before the next candidate. Any other runner that
// sends a result keeps running.
TEST(ServerSession, AfterItsLastResultARunnerIsReplaced) {
  for (bool last : {false, true}) {
    World w;
    w.Say("b", World::Batch(1, 2));
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

TEST(ServerSession, NonsensicalBatchesAreRefused) {
  World w;
  auto refusal = [&](auto change, std::vector<Blob> blobs = {Bytes("artifact")}) {
    MeasureRequest request = World::Batch(1, 2);
    change(request);
    w.Say("b", request, std::move(blobs));
    return w.RefusalText();
  };
  EXPECT_EQ(refusal([](auto&) {}), "");
  w.Say("x", LeaseEnd{World::Claim(1)});
  auto at = [&, n = 1](auto change, std::vector<Blob> blobs = {Bytes("artifact")}) mutable {
    ++n;
    return refusal([&](MeasureRequest& r) { r.claim = World::Claim(n), change(r); }, std::move(blobs));
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

TEST(ServerSession, WithoutRunnersTheDeviceIsAtFault) {
  World w;
  w.Say("b", World::Batch(1, 2));
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
