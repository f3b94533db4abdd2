// For tests of ServerSession: a session whose runner and host are pretended.
#pragma once
#include <gmock/gmock.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rpc/server_session.h"
#include "support/hash.h"
#include "tests/rpc/bytes.h"
#include "tests/rpc/pass_time.h"

namespace autotune::rpc {

struct ServerWorld {
  inline static const Id kServer = "0123456789abcdef0123456789abcdef";
  inline static const From kPeer = {.peer = "peer", .roles = kUnauthenticated};
  inline static const From kTracker = {.roles = {Role::kTracker}};

  explicit ServerWorld(ServerSession::Options options = {.server = kServer,
                                                         .incarnation = "i1",
                                                         .device = {.key = "cpu"}})
      : session(std::move(options)) {
    Take(session.OnRunnerReady(0));
  }
  void Take(ServerActions actions) {
    for (auto& action : actions) {
      if (auto* a = std::get_if<ToPeer>(&action)) sent.push_back(a->message);
      if (auto* a = std::get_if<ToTracker>(&action)) tracker.push_back(a->message);
      if (auto* a = std::get_if<StartCandidate>(&action)) {
        if (auto* asked = a->request.As<RunnerProbe>()) {
          probe = asked->run;
          continue;
        }
        if (auto* called = a->request.As<RunnerCall>()) {
          call = called->run;
          continue;
        }
        started = *a->request.As<RunnerRequest>();
        ahead.clear();
        for (const Blob& blob : a->ahead.blobs) ahead.emplace_back(*blob);
        blobs = a->request.blobs.size();
      }
      if (std::get_if<KillRunner>(&action)) ++kills;
      if (auto* a = std::get_if<FarmEvent>(&action)) events.push_back(*a);
      if (auto* a = std::get_if<ExamineRunner>(&action)) Take(session.OnRunnerExamined(a->run, Facts(), now));
      if (std::get_if<AcquireHost>(&action) && !host_busy) Take(session.OnHostAcquired(unlocked, now));
      if (std::get_if<ReleaseHost>(&action)) ++releases;
    }
  }
  // Returns a claim of lease number `counter`.
  static LeaseClaim Claim(int64_t counter) {
    return {"lease" + std::to_string(counter), {1, counter}, 10000, "c", "c", "", "", "i1"};
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
    Take(session.On(kPeer, {request, std::move(body), std::move(blobs)}, now));
  }
  void SayAs(const From& from, Body body) { Take(session.On(from, {"", std::move(body), {}}, now)); }
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
  std::map<std::string, TrialStatus> Statuses() const {  // of Results, by candidate
    std::map<std::string, TrialStatus> statuses;
    for (const TrialResult& result : Results()) statuses[result.candidate] = result.status;
    return statuses;
  }

  enum class Runner { kBusy, kAsleep, kStarved, kStopped, kCrowded };
  void Become(Runner next) {
    facts_before = Facts();
    runner_since = now;
    runner = next;
  }
  // What the runner has done so far: it has run, waited for a processor, slept, or done the first two at once.
  RunnerFacts Facts() const {
    RunnerFacts facts = facts_before;
    const auto since = static_cast<double>(now - runner_since);
    facts.stopped = runner == Runner::kStopped;
    facts.cpu_ms += runner == Runner::kBusy || runner == Runner::kCrowded ? since : 0;
    facts.waited_ms += runner == Runner::kStarved || runner == Runner::kCrowded ? since : 0;
    facts.stopped_ms += runner == Runner::kStopped ? since : 0;
    return facts;
  }
  // Ends the started candidate twice by a crash, so that it is charged.
  void CrashTwice() {
    for (int i = 0; i < 2; ++i) {
      Enter(RunnerPhase::kRun);
      End({"was ended by signal 11", 11, false});
    }
  }

  ServerSession session;
  int64_t now = 0;
  Runner runner = Runner::kBusy;
  RunnerFacts facts_before;  // at runner_since
  int64_t runner_since = 0;
  std::vector<Message> sent, tracker;
  std::optional<RunnerRequest> started;
  std::optional<int64_t> probe;  // number of the probe that was started
  std::optional<int64_t> call;   // number of the call that was started
  std::vector<FarmEvent> events;
  std::string unlocked;            // why turns on the host have no lock
  bool host_busy = false;          // true: nobody gets a turn on the host
  std::vector<std::string> ahead;  // artifacts that the runner was to load beside the started request
  size_t blobs = 0;                // blobs of the started request
  int kills = 0, releases = 0;
};

}  // namespace autotune::rpc
