// The books of a farm, kept from what its parties say that they did: tracker, servers and clients. The rules of this
// file are the farm's promises. It includes nothing of rpc/ and tracker/, so that it cannot share their mistakes.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace autotune {

// What one party did, at `at` milliseconds of the true time.
struct Entry {
  enum class What {
    // --- Clients ---
    kIssued,            // a candidate is to be measured
    kAnswered,          // the client has accepted a result, with `status`
    kAbandoned,         // the client has died before that
    kCallReplied,       // the client has accepted the reply to call `counter` of session `request`, with `status`
    kHeardDeviceError,  // the client has heard that the device failed in a run of this candidate
    kDropped,           // the client has given its lease up, since it lost the device
    kGaveBack,          // the client has no more work, and has told the tracker so once; the message may be lost
    // --- Tracker ---
    kAsked,    // a request for a device of `key` has arrived for the first time; `request`, `client`
    kLeft,     // a request has left the queue without a device
    kGranted,  // a lease; `request` if a client asked for it, none if a server reported it
    kReturned,
    kLost,
    // --- Servers ---
    kServerLeased,
    kServerReturned,
    kServerLost,
    kMustYield,  // the server has heard that the lease must yield
    kMayStay,    // the server has heard that it need not
    kStarted,    // a candidate runs, for `lease`, in `runner`, which has run `ran` candidates before
    // `status` is "ok", or why the candidate may be repeated: "crashed", "wrong answer", "device error"; "computed" or
    // "slept" until its deadline; "" if something else has ended it.
    kEnded,
    // A call of session `request` with the number `counter` runs, for `lease`, in `runner`, which has run `ran` calls
    // or
    // candidates before. It ends by kEnded.
    kCallStarted,
    kProbed,     // the device has passed a probe
    kRestarted,  // the server has a new incarnation; nothing runs on it
    kClosed,     // the server has ended by itself: nothing runs, and no lease is open
    // --- Administrators ---
    kHeld,     // `server` is drained or locked until `until`; `status` is "drain", "lock" or "none"
    kRevoked,  // the lease, at this moment
    // --- The world ---
    // A fault of a party (`server` or `client`), or between both, until `until`; of the tracker, if it names neither.
    // `status` is "restart" if the party has forgotten everything.
    kFault,
  };
  What what = What::kIssued;
  int64_t at = 0;
  std::string server, client, lease, request, candidate, key, status, why;
  std::string identity;            // of grants and their ends: the id by which the tracker knows the server
  int64_t epoch = 0, counter = 0;  // the lease's token
  int64_t runner = 0, ran = 0;
  int64_t until = 0;
  bool picky = false;  // of kAsked: the request excludes devices, so later ones may overtake it
};

class Ledger {
 public:
  struct Options {
    // Time after a fault in which a lease may be lost for it: the lease's time-to-live, and the silences by which
    // parties notice, one after the other.
    int64_t echo_ms = 40000;
    // Longest time in which a device changes its holder while somebody waits and nothing fails: quantum, time to yield,
    // the longest candidate, and the seconds in which all that is told.
    int64_t turn_ms = 60000;
    int64_t dead_ms = 20000;  // longest hold of a dead client: the lease's time-to-live, and a renewal under way
    int64_t late_ms = 5000;   // time in which a message of a calm network has surely been obeyed
    // True: the tracker may have forgotten tokens that no server has seen.
    bool unknown_tokens = false;
    // True: the books do not have the world's faults. Then no loss, wait or verdict is judged by its cause.
    bool faults_unknown = false;
    // Of device-seconds, by the books of tracker and servers; 0: not compared.
    double accuracy = 0.01;
    int64_t tell_ms = 0;  // further difference of each lease: the way of messages
  };
  Ledger() : Ledger(Options{}) {}
  explicit Ledger(Options options) : options_(options) {}

  void Add(const Entry& entry);
  void Close(int64_t at);  // the end of the books

  // One line for each broken promise: its name, ": ", what happened.
  const std::vector<std::string>& violations() const { return violations_; }
  std::set<std::string> BrokenPromises() const;
  int64_t leased_ms() const { return leased_ms_; }  // of all devices, by the tracker's books
  int64_t issued() const { return issued_; }
  int64_t answered() const { return answered_; }  // infrastructure included
  int64_t infrastructure() const { return infrastructure_; }
  int64_t executions() const { return executions_; }
  int64_t repeats() const { return repeats_; }  // executions of candidates that had run before
  int64_t losses() const { return losses_; }    // leases that did not end by their clients' wish
  int64_t faults() const { return faults_count_; }
  int64_t ExecutionsOn(const std::string& server) const;

 private:
  struct Execution {
    std::string server, lease;
    bool fresh = false;  // its runner had run nothing before
    bool lost = false;   // it failed, or its runner, its server or its lease was lost
    std::string status;  // of its end

    bool Failed() const { return status == "crashed" || status == "wrong answer" || status == "slept"; }
  };
  struct CandidateBook {
    std::string client;
    bool answered = false, abandoned = false;
    int device_errors = 0;  // of which the client has heard
    std::vector<Execution> executions;
  };
  struct SessionBook {  // of calls
    std::string lease;
    int64_t runner = 0, number = 0;  // of the latest call
    int64_t replied = 0;             // number of the latest reply
    bool over = false;               // a call has not ended well
  };
  struct LeaseBook {
    std::string server, client;
    int64_t epoch = 0, counter = 0;
    int64_t granted = -1, ended = -1, server_began = -1, server_ended = -1;
    std::optional<int64_t> must_yield, gave_back, revoked;
    bool lost = false;
    bool disturbed = false;  // its times need not agree
  };
  struct Device {
    std::string running;       // the candidate that runs, or the session whose call runs
    bool is_call = false;      // it is a call
    std::string server_lease;  // the open lease, by the server's books
    std::string failed_lease;  // the lease in which the device has failed, until it passes a probe
    int64_t runner = 0;        // the latest
    std::string runner_client;
    int64_t executions = 0;
    int64_t held_since = -1, held_until = -1;  // by the latest hold
    bool locked = false;                       // by that one
    std::pair<int64_t, int64_t> granted_token{-1, -1}, served_token{-1, -1}, run_token{-1, -1};
  };
  struct Waiting {
    std::string client, key;
    int64_t since;
    int64_t before;  // requests for this key that waited already
    bool picky;
  };

  void OnClient(const Entry& e);
  void OnQueue(const Entry& e);
  void OnGranted(const Entry& e);
  void OnLeaseEnd(const Entry& e);
  // Returns whether a lease may expire, since its client gave it back a time-to-live ago at most.
  bool WasGivenBack(const LeaseBook& book, int64_t at) const;
  void OnHeld(const Entry& e);
  // Returns whether a drain or a lock has lasted beyond `since`.
  bool HeldAfter(int64_t since) const;
  void OnServerLease(const Entry& e);
  void OnServerLeased(const Entry& e);
  void CompareDeviceSeconds(int64_t at);
  void OnStarted(const Entry& e);
  void OnCallStarted(const Entry& e);
  void OnCallReplied(const Entry& e);
  void CheckStart(const Entry& e, const std::string& what);
  void CheckDevice(const Entry& e, const std::string& client);
  void CheckRepeat(const Entry& e, const CandidateBook& book);
  void CheckCharge(const Entry& e, const CandidateBook& book);
  void OnEnded(const Entry& e);
  void OnFault(const Entry& e);
  void CheckWait(const Entry& e, const Waiting& served);
  // Returns whether a fault in the last echo_ms touches the tracker, the server or the client.
  bool HasCause(int64_t at, const std::string& server, const std::string& client) const;
  bool TrackerFailedAfter(int64_t since) const;
  bool HadToYield(const LeaseBook& book, int64_t at) const;
  void Violation(int64_t at, std::string_view promise, const std::string& text);

  Options options_;
  std::unordered_map<std::string, CandidateBook> candidates_;
  std::unordered_map<std::string, SessionBook> sessions_;
  std::unordered_map<std::string, LeaseBook> leases_;
  std::map<std::string, Device> devices_;
  std::map<std::string, std::string> tracker_leases_;  // identity of a server -> its open lease, by the tracker's books
  std::map<std::string, Waiting> waiting_;             // request -> who waits
  std::deque<Entry> faults_;                           // recent ones
  std::unordered_set<std::string> lost_leases_;
  std::map<std::string, int64_t> died_;  // client -> when
  int64_t leased_ms_ = 0, issued_ = 0, answered_ = 0, infrastructure_ = 0;
  int64_t latest_hold_end_ = -1;
  int64_t executions_ = 0, repeats_ = 0, losses_ = 0, faults_count_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace autotune
