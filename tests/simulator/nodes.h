// For tests: the real sessions of servers and clients in a simulated environment. The device only pretends to run
// candidates, jobs have known answers, and every answer is checked. The caller provides the clock, the network and
// delayed calls as a World. (The simulator has virtual time and one thread. The in-process farm has a thread for each
// node.) A node belongs to one thread, in which it also calls its World.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/client_session.h"
#include "rpc/server_session.h"
#include "support/rng.h"

namespace autotune {

// What a candidate does on the device. The last letter of its name encodes it.
enum class Fate {
  kFine,
  kCrashes,
  kHangs,         // it computes for ever
  kSleeps,        // it waits for ever and uses no processor
  kForges,        // it announces its result once more, while the next candidate runs
  kWrong,         // it computes wrong numbers
  kDamages,       // it is fine, but in its runner all others then compute wrong numbers
  kBreaksDevice,  // the device fails
};
Fate FateOf(std::string_view candidate);

struct JobPlan {
  int most = 90;                   // the job has 1 to `most` candidates
  double deadline_seconds = 3600;  // of candidates that end; the others get 2 seconds
  double breaks_device = 0;        // chance per candidate
};
// Returns a job whose candidates' names begin with `prefix`. Each has its own artifact, from which the device computes
// the time that it reports. So a result of another candidate or job is recognized. Some jobs have a reference, with
// which their candidates are compared.
std::shared_ptr<const rpc::MeasureJob> MakeJob(const std::string& prefix, const JobPlan& plan, Rng& rng);

// A session of calls: one, then several that are sent ahead of their replies, then one that measures. `name` is that of
// the session; the last letter of a call's name encodes what it does, as a candidate's does.
struct CallPlan {
  std::string name;
  std::vector<std::string> fates;  // letters, of the calls
  bool closes = false;             // the client then gives its device back
};
CallPlan MakeCalls(const std::string& name, Rng& rng);

using OnViolation = std::function<void(std::string_view promise, const std::string& text)>;

class ServerNode {
 public:
  static constexpr int64_t kBrokenMs = 3000;  // time for which a device fails after a candidate that breaks it
  // A candidate begins.
  struct Start {
    const rpc::Message& message;  // a RunnerRequest, or a RunnerCall whose blob names the call
    const rpc::Id& lease;
    int64_t runner, ran;  // the runner's number, and how many candidates it has run before
  };
  struct World {
    std::function<int64_t()> now;
    // Calls a function later, in this node's thread, but never after the node has ended.
    std::function<void(int64_t delay_ms, std::function<void()>)> after;
    std::function<void(const rpc::Peer&, const rpc::Message&)> to_peer;
    std::function<void(const rpc::Message&)> to_tracker;
    std::function<void(const Start&)> on_start;
    // A candidate ends: "ok", "crashed", "wrong answer", "device error", "slept" or "computed" until its deadline, or
    // "" if something else than the candidate has ended it.
    std::function<void(std::string_view status)> on_end = [](auto) {};
    std::function<void()> on_probed = [] {};  // the device has passed a probe
    std::function<void(const rpc::FarmEvent&)> on_event = [](auto&) {};
    std::function<int64_t()> run_ms;  // how long the next run takes
    OnViolation violation;
  };
  ServerNode(rpc::ServerSession::Options options, World world);

  void On(const rpc::From& from, const rpc::Message& message) { Perform(session_.On(from, message, world_.now())); }
  void OnTracker(const rpc::Message& message) {
    Perform(session_.On({.roles = {rpc::Role::kTracker}}, message, world_.now()));
  }
  void OnTrackerConnected() { Perform(session_.OnTrackerConnected(world_.now())); }
  // The runner is killed from outside, or no runner can be started for a while.
  void KillRunner();
  void LoseRunners(int64_t ms);
  // The runner is stopped for a while, or the host gives runners no processor.
  void StopRunner(int64_t ms) { HaltRunner(ms, true); }
  void StarveRunners(int64_t ms) { HaltRunner(ms, false); }
  void FailDevice(int64_t ms) { broken_until_ = world_.now() + ms; }
  bool Busy() const { return session_.Busy(); }
  const rpc::Id& lease() const { return lease_; }  // the present one, or the last

 private:
  struct Halt {  // of the runner
    int64_t since = 0, until = 0;
    bool by_signal = false;  // else for want of a processor

    int64_t Lasted(int64_t now) const { return std::clamp<int64_t>(now - since, 0, until - since); }
  };
  struct Runner {
    int64_t number = 0, ran = 0;  // `ran`: candidates so far
    bool damaged = false;
  };
  void Perform(rpc::ServerActions actions);
  void Execute(const rpc::Message& request);
  void Probe(int64_t run, int64_t runner);
  void Send(const rpc::Message& request, int64_t run);
  void SendResult(const rpc::RunnerRequest& request, std::string_view artifact);
  void AnswerCall(const rpc::Message& message, int64_t run);
  void EndRunner(std::string_view status, const rpc::RunnerEnd& end);
  rpc::RunnerFacts Examine();
  void HaltRunner(int64_t ms, bool by_signal);
  // Milliseconds of all halts so far.
  int64_t Halted() const { return halted_ms_ + halt_.Lasted(world_.now()); }
  std::string_view FateAtDeadline() const;
  void End(std::string_view status);
  void NewRunnerAfter(int64_t delay_ms);
  bool Broken() const { return world_.now() < broken_until_; }

  World world_;
  rpc::ServerSession session_;
  rpc::Alarm alarm_;
  int64_t runs_ = 0, running_ = 0;                       // number of the current run on the device; 0: none
  Fate fate_ = Fate::kFine;                              // of that run
  int64_t run_began_ = 0, run_halted_ = 0, run_ms_ = 0;  // its beginning, Halted then, its deadline
  Runner runner_;                                        // the present one
  Halt halt_;                                            // the latest one
  int64_t halted_ms_ = 0, starved_ms_ = 0;               // in earlier ones
  int64_t broken_until_ = 0;                             // the device
  rpc::Id lease_;                                        // the present one, by the session's events
};

class ClientNode {
 public:
  struct World {
    std::function<int64_t()> now;
    std::function<void(int64_t delay_ms, std::function<void()>)> after;  // as of a ServerNode
    std::function<void(const rpc::Message&)> to_tracker;
    std::function<void(const std::string& endpoint)> connect;
    std::function<void(const rpc::Message&)> to_server;
    std::function<void()> connect_uploads;  // to the same server
    std::function<void(const rpc::Message&)> to_uploads;
    std::function<void()> drop_server;
    std::function<void(const rpc::TrialResult&)> on_result;  // already checked
    std::function<void(const rpc::Id& session, int64_t number, TrialStatus)> on_reply;
    // The client has heard for the first time that the device failed in this run of a candidate.
    std::function<void(const std::string& candidate)> on_device_error = [](auto&) {};
    std::function<void(const rpc::FarmEvent&)> on_event = [](auto&) {};  // the client has lost its lease
    std::function<void()> on_done;  // the job is done, with all results, or the session of calls is over
    OnViolation violation;
  };
  ClientNode(rpc::ClientSession::Options options, World world);

  void Start(std::shared_ptr<const rpc::MeasureJob> job);
  void StartCalls(CallPlan plan);
  void Cancel();
  void OnTrackerConnected() { Perform(session_.OnTrackerConnected(world_.now())); }
  void OnTracker(const rpc::Message& message) {
    Perform(session_.On({.roles = {rpc::Role::kTracker}}, message, world_.now()));
  }
  void OnServer(const rpc::Message& message);
  void OnServerConnected() { Perform(session_.OnServerConnected(world_.now())); }
  void OnUploadsConnected() { Perform(session_.OnUploadsConnected(world_.now())); }
  void OnServerDisconnected() { Perform(session_.OnServerDisconnected(world_.now())); }
  void Close() { Perform(session_.Close(world_.now())); }
  bool HasJob() const { return job_ != nullptr || calls_.has_value(); }
  bool HasLease() const { return session_.HasLease(); }
  std::vector<std::string> Unanswered() const;

 private:
  void Perform(rpc::ClientActions actions);
  void Check(const rpc::TrialResult& result);
  void NextCalls();
  void CheckReply(const rpc::CallReplied& replied);

  World world_;
  rpc::ClientSession session_;
  rpc::Alarm alarm_;
  std::shared_ptr<const rpc::MeasureJob> job_;
  std::map<std::string, size_t> places_;  // candidate -> its index in the job
  std::set<std::string> answered_;
  std::map<std::string, std::set<rpc::Id>> device_errors_;  // candidate -> batches in which the device failed with it
  bool cancelled_ = false;
  std::optional<CallPlan> calls_;
  int64_t replies_ = 0;        // to calls of this session
  bool calls_failed_ = false;  // the session is over
};

}  // namespace autotune
