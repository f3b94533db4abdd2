// For tests: the real sessions of servers and clients in a simulated environment. The device only pretends to run
// candidates, jobs have known answers, and every answer is checked. The caller provides the clock, the network and
// delayed calls as a World. (The simulator has virtual time and one thread. The in-process farm has a thread for each
// node.) A node belongs to one thread, in which it also calls its World.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/client_session.h"
#include "rpc/server_session.h"
#include "support/rng.h"
#include "tests/rpc/pass_time.h"

namespace autotune {

// What a candidate does on the device. The last letter of its name encodes it.
// kForges: it announces its result once more, while the next candidate runs.
enum class Fate { kFine, kCrashes, kHangs, kForges };
Fate FateOf(const std::string& candidate);

// Returns a job of 1 to `most` candidates, whose names begin with `prefix`. Each has its own artifact, from which the
// device computes the time that it reports. So a result of another candidate or job is recognized. Some jobs have a
// reference, with which their candidates are compared.
std::shared_ptr<const rpc::MeasureJob> MakeJob(const std::string& prefix, int most, Rng& rng);

class ServerNode {
 public:
  struct World {
    std::function<int64_t()> now;
    // Calls a function later, in this node's thread, but never after the node has ended.
    std::function<void(int64_t delay_ms, std::function<void()>)> after;
    std::function<void(const rpc::Peer&, const rpc::Message&)> to_peer;
    std::function<void(const rpc::Message&)> to_tracker;
    // A candidate begins, for a client's lease; the message is a RunnerRequest.
    std::function<void(const rpc::Message&, const rpc::Id& lease)> on_start;
    std::function<void(std::string_view status)> on_end = [](auto) {};  // it ends: "ok", or another word
    std::function<void(const rpc::FarmEvent&)> on_event = [](auto&) {};
    std::function<int64_t()> run_ms;  // how long the next run takes
    std::function<void(std::string)> violation;
  };
  ServerNode(rpc::ServerSession::Options options, World world);

  void On(const rpc::Peer& peer, const rpc::Message& message) {
    Perform(session_.On({.peer = peer, .roles = rpc::kUnauthenticated}, message, world_.now()));
  }
  void OnTracker(const rpc::Message& message) {
    Perform(session_.On({.roles = {rpc::Role::kTracker}}, message, world_.now()));
  }
  void OnTrackerConnected() { Perform(session_.OnTrackerConnected(world_.now())); }
  // The runner is killed from outside, or no runner can be started for a while.
  void KillRunner();
  void LoseRunners(int64_t ms);
  bool Busy() const { return session_.Busy(); }
  const rpc::Id& lease() const { return lease_; }  // the present one, or the last

 private:
  void Perform(rpc::ServerActions actions);
  void Execute(const rpc::Message& request);
  void Send(const rpc::Message& request, int64_t run);
  void End(std::string_view status);
  void RunnerReadyAfter(int64_t delay_ms);

  World world_;
  rpc::ServerSession session_;
  test::Alarm alarm_;
  int64_t runs_ = 0, running_ = 0;  // number of the current run on the device; 0: none
  int64_t runner_ = 0;              // number of the present runner
  rpc::Id lease_;                   // the present one, by the session's events
};

class ClientNode {
 public:
  struct World {
    std::function<int64_t()> now;
    std::function<void(int64_t delay_ms, std::function<void()>)> after;  // as of a ServerNode
    std::function<void(const rpc::Message&)> to_tracker;
    std::function<void(const std::string& endpoint)> connect;
    std::function<void(const rpc::Message&)> to_server;
    std::function<void()> drop_server;
    std::function<void(const rpc::TrialResult&)> on_result;  // already checked
    // The client has given up a lease that it did not end politely.
    std::function<void(const rpc::Id& lease)> on_dropped = [](auto&) {};
    std::function<void()> on_done;  // the job is done, with all results
    std::function<void(std::string)> violation;
  };
  ClientNode(rpc::ClientSession::Options options, World world);

  void Start(std::shared_ptr<const rpc::MeasureJob> job);
  void Cancel();
  void OnTrackerConnected() { Perform(session_.OnTrackerConnected(world_.now())); }
  void OnTracker(const rpc::Message& message) {
    if (auto* granted = message.As<rpc::LeaseGranted>()) granted_ = granted->lease;
    Perform(session_.On({.roles = {rpc::Role::kTracker}}, message, world_.now()));
  }
  void OnServer(const rpc::Message& message) {
    Perform(session_.On({.roles = {rpc::Role::kServer}}, message, world_.now()));
  }
  void OnServerConnected() { Perform(session_.OnServerConnected(world_.now())); }
  void OnServerDisconnected() { Perform(session_.OnServerDisconnected(world_.now())); }
  void Close() { Perform(session_.Close(world_.now())); }
  bool HasJob() const { return job_ != nullptr; }
  bool HasLease() const { return session_.HasLease(); }
  std::vector<std::string> Unanswered() const;

 private:
  void Perform(rpc::ClientActions actions);
  void Check(const rpc::TrialResult& result);

  World world_;
  rpc::ClientSession session_;
  test::Alarm alarm_;
  std::shared_ptr<const rpc::MeasureJob> job_;
  std::map<std::string, size_t> places_;  // candidate -> its index in the job
  std::set<std::string> answered_;
  rpc::Id granted_, lease_;  // the lease of the tracker's latest grant, and the one in use
  bool polite_ = false;      // the end of the lease in use was sent to the server
  bool cancelled_ = false;
};

}  // namespace autotune
