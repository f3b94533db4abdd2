// A farm in virtual time: the real state machines of tracker, servers and clients, over a network that loses, delays,
// repeats and cuts messages, with processes that crash, freeze and restart. Each seed gives one history. Violated
// promises are collected in `violations`, so that tests can check that violations are noticed.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "support/rng.h"
#include "tests/tracker/nodes.h"
#include "tracker/tracker_state.h"

namespace autotune {

struct Weather {
  double loss = 0.05, repeat = 0.05;  // chance per message
  int64_t max_delay_ms = 60;
  double tracker_crashes = 0.01, server_crashes = 0.01, server_freezes = 0.01, cuts = 0.02;  // chance per second
  bool forge_tokens = false;  // clients claim the highest token, which honest clients never do
};

class Simulator {
 public:
  Simulator(uint64_t seed, Weather weather, int servers, int clients, int jobs_per_client);
  // Runs until all jobs are done, or the virtual time is over.
  void Run(int64_t max_ms);

  std::vector<std::string> violations;
  int64_t now = 0;
  int delivered = 0, infrastructure = 0, tracker_restarts = 0, server_restarts = 0, executed = 0;
  int crashed = 0;  // delivered results of candidates that crash
  bool AllDone() const;
  // Returns the number of devices that the tracker considers busy.
  int Busy() const;

 private:
  struct Event {
    int64_t at;
    int64_t number;  // events at the same time happen in order of their numbers
    std::function<void()> f;
    bool operator<(const Event& o) const { return at != o.at ? at > o.at : number > o.number; }
  };
  struct Server {
    std::unique_ptr<ServerNode> node;  // null if the server is down
    int64_t incarnation = 0;
    int64_t frozen_until = 0;
    std::vector<std::function<void()>> frozen_inputs;
    rpc::Token last_token;
  };
  struct Client {
    std::unique_ptr<ClientNode> node;
    int jobs_left = 0;
    int64_t connection = 0;  // number of the current connection
    int server = -1;
    int64_t server_incarnation = 0;
    bool cut = false;  // no message passes between the client and its server
  };

  void Post(int64_t delay, std::function<void()> f);
  void Transmit(std::function<void()> f);
  void Violation(const std::string& text) { violations.push_back(std::to_string(now) + " ms: " + text); }
  rpc::Id NewId() { return std::to_string(rng_.Next()); }

  void StartTracker();
  void ToTrackerNode(rpc::Peer from, rpc::Message message);
  void PerformTracker(TrackerState::Output output);
  void StartServer(int s);
  void InServer(int s, int64_t incarnation, std::function<void(Server&)> f);
  void FromServer(const rpc::Peer& peer, const rpc::Message& message);
  void OnStart(int s, const rpc::Message& request);
  void StartClient(int c, int jobs);
  void StartJob(int c);
  void ConnectClient(int c, const std::string& endpoint);
  void FromClient(int c, rpc::Message message);
  void Misfortunes();
  void Thaw(int s);

  Rng rng_;
  Weather weather_;
  std::priority_queue<Event> events_;
  int64_t event_number_ = 0;
  std::unique_ptr<TrackerState> tracker_;
  std::unique_ptr<test::Alarm> tracker_alarm_;
  int64_t tracker_starts_ = 0;
  int64_t tracker_epoch_ = 0;  // what the file of its state holds
  std::map<std::string, int64_t> tracker_keys_;
  std::vector<Server> servers_;
  std::vector<Client> clients_;
  std::map<rpc::Id, rpc::Token> batch_tokens_;  // tokens as the tracker granted them
  int64_t connections_ = 0;
};

}  // namespace autotune
