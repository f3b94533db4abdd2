// A farm in virtual time: the real state machines of tracker, servers and clients, over a network whose messages are
// encoded, lost, delayed and repeated, with all faults that processes, networks and hosts have. Each seed gives one
// history. A ledger (tests/simulator/ledger/ledger.h) keeps the books and names the promises that are broken.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <unordered_set>
#include <vector>

#include "support/rng.h"
#include "tests/simulator/hoarder.h"
#include "tests/simulator/ledger/ledger.h"
#include "tests/simulator/nodes.h"
#include "tracker/tracker_state.h"

namespace autotune {

struct Weather {
  double loss = 0.005, repeat = 0.02;  // chance per message
  int64_t max_delay_ms = 60;
  int64_t fault_every_ms = 30000;  // in the mean, of the whole farm; 0: nothing fails
  double drift = 1e-3;             // largest deviation of a clock's rate
  int64_t longest_run_ms = 150;    // of a candidate that nothing halts
  double deadline_seconds = 10;    // of candidates
  double breaks_device = 0.0005;   // chance that a candidate breaks its device
  bool forget_epoch = false;       // tracker crashes lose the epoch in its file
};
inline constexpr Weather kCalm{.loss = 0, .repeat = 0, .max_delay_ms = 2, .fault_every_ms = 0, .breaks_device = 0};

class Simulator {
 public:
  static constexpr int64_t kForever = int64_t{1} << 60;
  struct Options {
    uint64_t seed = 1;
    Weather weather = {};
    std::vector<int> servers = {3};  // of each key
    int clients = 5;                 // they want the keys in turn
    int jobs = 3;                    // of each client
    int most_candidates = 90;        // of a job
    int hoarders = 0;                // clients of the first key that keep their devices for ever
    int64_t quantum_ms = 30000;
    double calls = 0;   // share of the jobs that are sessions of calls
    bool keys = false;  // servers and clients are authenticated members
    bool wall = false;  // nothing passes between client 0 and server 0
    int encoded = 1;    // each message of so many passes the wire's encoder and decoder, which take most of the time
  };
  explicit Simulator(Options options);
  ~Simulator();

  // Runs until all jobs are done, or the virtual time is over.
  void Run(int64_t max_ms);
  // Runs until devices were leased for so long, together.
  void RunLeased(int64_t device_ms);
  void RunFor(int64_t ms);

  void Freeze(int party, int64_t ms);
  void CrashTracker();
  void Suspend(int64_t ms);  // freezes everybody
  // What happens to the device and the runner of a server. Nothing if the server is down or frozen.
  enum class Mishap { kDeviceFails, kRunnerStopped, kRunnersStarved, kRunnerKilled, kNoRunners };
  void Befall(int server, Mishap mishap, int64_t ms);
  // What an administrator asks of the tracker. Nothing if it is down or frozen.
  void Hold(int server, const std::string& how, int64_t ms);
  void RevokeLeaseOf(int server);
  static constexpr int kTracker = 0;
  static inline const rpc::Peer kAdmin = "admin";
  int ServerParty(int server) const { return 1 + server; }
  int ClientParty(int client) const { return 1 + static_cast<int>(servers_.size()) + client; }

  // The broken promises so far, those of the books included.
  std::vector<std::string> Violations() const;
  const Ledger& ledger() const { return ledger_; }
  bool AllDone() const;
  int Busy() const;     // devices that the tracker considers busy
  int Holding() const;  // clients with a lease
  bool Holds(int client) const;
  int64_t now() const { return now_; }
  int64_t chunks() const { return chunks_; }    // of uploads, that were sent
  int64_t replies() const { return replies_; }  // to calls, that clients have got

  enum class Fault {
    kTrackerCrash,
    kServerCrash,
    kClientCrash,
    kTrackerFreeze,
    kServerFreeze,
    kClientFreeze,
    kSuspend,
    kCut,
    kRunnerKill,
    kNoRunners,
    kRunnerStop,
    kRunnerStarve,
    kDeviceFailure,
    kCancel,
    kSlowDisk,
    kDrain,
    kLock,
    kHoldEnd,
    kRevoke,
    kCount
  };
  const std::array<int, static_cast<size_t>(Fault::kCount)>& faults() const { return faults_; }

 private:
  using Action = std::function<void()>;
  struct Event {
    int64_t at;
    int64_t number;  // events at the same time happen in order of their numbers
    Action action;
    bool operator<(const Event& o) const { return at != o.at ? at > o.at : number > o.number; }
  };
  struct Letter {
    rpc::Message message;
    rpc::Frames frames;  // the encoded message, or none
    std::function<void(const rpc::Message&)> deliver;
  };
  // A process on a host with a clock of its own.
  struct Party {
    std::string name;
    int64_t incarnation = 0;
    bool up = false;
    int64_t frozen_since = 0, frozen_until = 0;
    std::vector<Action> inputs;  // what has arrived while it was frozen
    double rate = 1;
    int64_t offset = 0;
  };
  struct Link {               // a connection, which one side opens
    int64_t number = 0;       // 0: there is none
    int64_t incarnation = 0;  // of the other side
    int64_t cut_since = 0, cut_until = 0;
  };
  struct Server {
    std::unique_ptr<ServerNode> node;
    Link tracker, dialled;  // the tracker has opened `dialled`, for `dial`
    TrackerState::Dial dial;
    std::string key;
  };
  struct Client {
    std::unique_ptr<ClientNode> node;
    std::unique_ptr<Hoarder> hoarder;
    Link tracker, server, uploads;
    bool wants_uploads = false;
    int at = -1;                 // number of the server, or -1
    int64_t at_incarnation = 0;  // by the endpoint; 0: any
    int jobs_left = 0;
    int64_t jobs = 0;  // so far
    std::string key, request;
  };

  // --- simulator.cc: time, processes, network ---
  void Post(int64_t delay, Action action);
  void Step();
  Party& PartyOf(int party) { return parties_[static_cast<size_t>(party)]; }
  int64_t Clock(int party) const;
  void Later(int party, int64_t delay, Action action);
  void In(int party, int64_t incarnation, Action action);
  void Thaw(int party);
  bool Reaches(int from, int to, const Link& link) const;
  void Transmit(int from, int to, const Link& link, const rpc::Message& message,
                std::function<void(const rpc::Message&)> deliver);
  void Open(const Letter& letter);
  void Connect(int from, int to, Link& link, Action connected);
  void KeepConnected();
  bool Listens(const Client& client) const;
  void Disconnect(Client& client, int c);
  void Violation(std::string_view promise, const std::string& text);
  rpc::From Sender(int party, const rpc::Peer& peer) const;
  rpc::Id NewId() { return std::to_string(rng_.Next()); }

  // --- parties.cc ---
  void StartTracker();
  void ToTracker(int from, const Link& link, const rpc::Message& message);
  void BookRequest(int from, const rpc::Message& message);
  void FromTracker(const rpc::Peer& peer, const rpc::Message& message);
  void PerformTracker(const TrackerState::Dials& dials);
  void DialServer(const TrackerState::Dial& dial);
  void SaveTracker();
  void StoreTracker();
  void StartServer(int s);
  void BookServerEvent(int s, const rpc::FarmEvent& event);
  void BookTrackerEvent(const rpc::FarmEvent& event);
  void ToClient(int s, const rpc::Peer& peer, const rpc::Message& message);
  void OnStart(int s, const ServerNode::Start& start);
  void OnEnd(int s, std::string_view status);
  void StartClient(int c);
  void StartHoarder(int c);
  void HoardOn(int c);
  void StartJob(int c);
  void ConnectToServer(int c, const std::string& endpoint);
  void ToServer(int c, const rpc::Message& message) { OverLink(c, &Client::server, message); }
  void OverLink(int c, Link Client::*over, const rpc::Message& message);
  void ConnectUploads(int c);
  void HearTracker(int party, const rpc::Message& message);

  // --- faults.cc ---
  void NextFault();
  void Strike(Fault fault);
  void CrashServer(int s);
  void CrashClient(int c);
  void Cut();
  bool Administer(rpc::Body wish);
  bool TrackerRuns();
  void BookFault(int party, int64_t until, const std::string& status = "");
  int Any(size_t count) { return static_cast<int>(rng_.Below(static_cast<int64_t>(count))); }

  Options options_;
  Rng rng_;
  int64_t now_ = 0;
  std::priority_queue<Event> events_;
  int64_t event_number_ = 0, connections_ = 0, transmitted_ = 0, chunks_ = 0, replies_ = 0;
  std::vector<Party> parties_;  // the tracker, the servers, the clients
  std::unique_ptr<TrackerState> tracker_;
  std::unique_ptr<rpc::Alarm> tracker_alarm_;
  std::vector<rpc::Peer> gone_;         // to which the tracker has sent in vain, in the present input
  std::optional<rpc::Message> admins_;  // the tracker's latest answer to the administrator
  // What the file of the tracker's state holds, and how long it takes to write it.
  int64_t saved_epoch_ = 0, saved_changes_ = 0, disk_ms_ = 0;
  bool saving_ = false;
  std::map<std::string, int64_t> saved_keys_;
  std::vector<rpc::DeviceHold> saved_holds_;
  int64_t saved_at_ = 0;  // the true time of that
  std::vector<Server> servers_;
  std::vector<Client> clients_;
  std::unordered_set<rpc::Id> seen_requests_;
  Ledger ledger_;
  std::vector<std::string> node_violations_;
  std::array<int, static_cast<size_t>(Fault::kCount)> faults_{};
  bool closing_ = false;  // no further jobs begin
};

}  // namespace autotune
