// TrackerState: the logic of a tracker as a pure state machine. It knows which servers offer devices, which clients
// hold them and which clients wait; it never sees candidates. It knows no socket and no clock: inputs come with the
// time, and its driver sends messages for it. A message leaves in the middle of an input, before the state is complete:
// whoever waits for an answer does not wait for the books. Only the epoch, the administrators' holds and the servers of
// members must survive a restart: servers then report their leases again, and clients repeat their requests. Not
// thread-safe.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "rpc/farm_event.h"
#include "rpc/from.h"
#include "rpc/message.h"
#include "rpc/timers.h"
#include "support/clock_text.h"
#include "support/hash.h"
#include "tracker/power_cycle.h"
#include "tracker/snapshot.h"

namespace autotune {

class TrackerState : public rpc::Timed<TrackerState> {
 public:
  // Asks the driver to connect to the address that a server states for clients, and to send a Ping there. The driver
  // hands the answer to OnDialAnswer. A connection that was made for this server before ends.
  struct Dial {
    rpc::Id server;
    std::vector<std::string> endpoints;  // empty: only end the connection
    std::string public_key;              // of the server; empty: it listens at an ipc socket
  };
  using Dials = std::vector<Dial>;  // that an input asks for

  struct Options {
    int64_t epoch = 1;                    // must be larger than at any earlier start
    bool recovering = false;              // after a restart: grant nothing for one time-to-live
    std::map<std::string, int64_t> keys;  // keys that were known before a restart -> milliseconds since a report
    std::vector<rpc::DeviceHold> holds;   // holds of the time before a restart
    std::vector<KnownBoard> boards;       // servers of members that had not said goodbye before a restart
    int64_t ttl_ms = 10000;               // time-to-live of a lease without a renewal
    int64_t quantum_ms = 30000;           // time after which a holder yields to waiting clients
    int64_t yield_ms = 10000;             // time that a holder has to yield, unless its candidate runs longer
    int64_t server_silence_ms = 6000;     // silence after which a server of this host counts as unreachable
    int64_t client_silence_ms = 5000;     // silence after which a waiting client of this host leaves the queue
    int64_t member_silence_ms = rpc::kLongestBreakMs;  // the same of members, who may be on other hosts
    int64_t forget_ms = 24 * 3600 * 1000;              // time for which unreachable servers are remembered
    int64_t report_interval_ms = 1000;
    int64_t dial_ms = 3000;  // time that a server has to answer at its address [chosen]
    // Time from a dial without an answer to the next dial. It doubles with each further dial, up to the longest.
    // [chosen]
    int64_t dial_again_ms = 5000, longest_dial_again_ms = 300000;
    // Most dials at a time, and the time between the beginnings of two dials in the long run. Further dials wait. Each
    // dial is a connection to an address that a stranger may have chosen. [chosen]
    size_t most_dials = 64;
    int64_t between_dials_ms = 10;
    int64_t grace_ms = 3000;      // time after the first start in which unknown keys may wait for their servers
    int64_t remember_ms = 60000;  // time for which settled requests are remembered
    std::function<rpc::Id()> new_id = rpc::RandomId;
    // Says for people when so many milliseconds will be over. This machine does not know the time of day.
    std::function<std::string(int64_t ms)> until_text = [](int64_t ms) { return "for another " + LastingText(ms); };
    // Returns the name of the member who has this public key; nothing if there is none.
    std::function<std::optional<std::string>(const std::string& public_key)> name_of = [](const std::string&) {
      return std::nullopt;
    };
    // Answers an administrator's message about members (rpc/membership.h). A tracker without members has none.
    std::function<rpc::Body(const rpc::Body& question)> about_members;
    // Says what has come of the dial of a server so far, address by address; "": nothing is known.
    std::function<std::string(const rpc::Id& server)> dial_trouble = [](const rpc::Id&) { return ""; };
    std::string host = "TRACKER";  // name or address of this tracker's host, for commands that are suggested
    // --- What the driver does at once, in the middle of an input. It may read the state, and must not throw.
    // Sends a message. If the peer has left, the driver calls OnUnreachable after the input.
    std::function<void(const rpc::Peer& peer, const rpc::Message& message)> send = [](const auto&, const auto&) {};
    std::function<void()> save = [] {};  // stores the state, since the next messages promise what has changed
    rpc::OnFarmEvent on_event = {};
  };
  TrackerState(Options options, int64_t now);

  Dials On(const rpc::From& from, const rpc::Message& message, int64_t now);
  Dials OnUnreachable(const rpc::Peer& peer, int64_t now);  // for a peer to which a message could not be sent
  Dials OnDialAnswer(const Dial& dial, const rpc::Message& answer, int64_t now);
  // Ends all dials under way. The driver calls this when answers take too much memory. Returns nothing if no dial is
  // under way.
  std::optional<Dials> EndDials(int64_t now);
  void OnMalformed() { ++malformed_; }
  // Tells members the public key that the tracker will have later; empty: it keeps its key.
  void SetNextKey(std::string key) { next_key_ = std::move(key); }
  // Ends all that a member has, whose key is allowed no more: its leases, its requests and its servers.
  Dials RevokeMember(const std::string& identity, int64_t now);
  // Refuses waiting and later requests for devices of this key with `why`, until a server reports such a device again.
  Dials FailKey(const std::string& key, const std::string& why, int64_t now);

  rpc::StatusReply Status(const std::string& key, int64_t now) const;  // as it fits into a message
  rpc::StatusReply WholeStatus(int64_t now) const;                     // of all keys, without that limit
  FarmSnapshot Snapshot(int64_t now) const;                            // without its time
  // Returns all servers of members that have not said goodbye. The silence of one that has not reported since a restart
  // of the tracker begins with the restart.
  std::vector<ServerSilence> Silences(int64_t now) const;
  // What the caller must store for the next start. The epoch grows when a server reports a later one.
  int64_t epoch() const { return epoch_; }
  std::map<std::string, int64_t> KeyAges(int64_t now) const;
  std::vector<rpc::DeviceHold> CurrentHolds(int64_t now) const;  // with the times that are left
  std::vector<KnownBoard> Boards() const;
  int64_t changes() const { return changes_; }  // grows when the epoch, the set of keys, the holds or the boards change

 private:
  friend class rpc::Timed<TrackerState>;
  // Longest time that a peer's message may state. The tracker cuts longer ones. [chosen]
  static constexpr int64_t kLongestMs = int64_t{30} * 24 * 3600 * 1000;
  struct Server {
    rpc::ServerReport report;
    rpc::Encoded<rpc::DeviceInfo> device;  // report.device, for grants
    rpc::Peer peer;
    std::string identity;  // of the member; empty: not authenticated
    std::string address;   // from which it reports; empty: this host
    int64_t last_seen = 0;
    bool reachable = false;  // it reports
    enum class Dialed { kNo, kDue, kUnderWay, kAnswered } dialed = Dialed::kNo;
    std::string dial_error;    // why clients cannot reach it, as the latest dial has shown
    int64_t dial_again = 0;    // time from its latest dial, which failed, to the next one
    std::string client_error;  // why the latest client that failed to reach it did
    rpc::Id client;            // that client
    int64_t client_failed = 0;
    std::optional<rpc::Id> lease;
    std::string hold;  // pattern of the strictest hold that names this device; empty: none

    bool IsHeld() const { return !hold.empty() && rpc::Holds(rpc::Rule::kHolds); }
    // Returns whether it may be granted if nobody has it.
    bool CanServe() const { return reachable && report.ready && dialed == Dialed::kAnswered && !IsHeld(); }
  };
  struct Lease {
    rpc::Id id, request;
    rpc::Token token;
    rpc::Id server, client;
    std::string client_name, tenant, job;
    int64_t granted = 0;
    int64_t deadline = 0;  // of the candidate that ran at the latest report
    std::optional<int64_t> must_yield_since;
    int64_t worked = 0;    // latest time at which a candidate ran for it, or its grant
    std::string identity;  // of the holder
  };
  struct Hold {
    rpc::DeviceHold stated;
    int64_t until = rpc::kNever;
  };
  struct Job {
    rpc::JobReport report;
    std::string identity;  // of the member that reports it
    int64_t began = 0, heard = 0;
    bool here = false;  // it is reported from the tracker's host
  };
  struct Waiting {
    rpc::Id request;
    rpc::Peer peer;
    std::string identity;  // of the client
    rpc::LeaseRequest wish;
    int64_t since = 0, heard = 0, deadline = 0;
    int64_t position = 0;  // place among the requests for this key, as of the latest round
  };
  using Queue = std::map<int64_t, Waiting>;  // by ticket; the lowest ticket is served first
  // What has become of a lease request. A peer that repeats it gets the same answer.
  struct Queued {
    int64_t ticket = 0;
  };
  struct Granted {
    rpc::Id lease;  // which has not ended
  };
  struct Settled {  // refused, withdrawn, or its lease has ended
    int64_t when = 0;
    rpc::Refusal answer;
  };
  using Request = std::variant<Queued, Granted, Settled>;
  // Peers make up the ids of requests. They do not know the seed, so they cannot make many ids with one hash.
  struct HashOfId {
    uint64_t seed;
    HashOfId() : seed(static_cast<uint64_t>(rpc::RandomNumber())) {}
    size_t operator()(const rpc::Id& id) const { return Hash64(id, seed); }
  };

  void Advance(int64_t now);
  rpc::EarliestTimer<TrackerState> Earliest() const;
  void EndRecovery(int64_t now);
  void OnLeaseExpired(int64_t now);
  void OnSilentServer(int64_t now);
  // --- Dials (tracker/tracker_dials.cc) ---
  // Ends a dial that is under way. `delay`: time until the next one, if one is due.
  void SetDialed(const rpc::Id& id, Server& server, Server::Dialed dialed, int64_t now, int64_t delay = 0);
  void StartDials(int64_t now);
  void FailDial(const rpc::Id& id, Server& server, const std::string& why, int64_t now);
  void OnDialOverdue(int64_t now);
  int64_t NextDial() const;
  // Notes that a client could not reach a server, which the tracker can.
  void OnUnreached(const Lease& lease, const std::string& why, int64_t now);
  std::string Trouble(const Server& server, int64_t now) const;
  std::string ReachHelp(const Server& server) const;
  // ---
  // --- Holds and revocations (tracker/tracker_holds.cc) ---
  // Answers an administrator's message.
  void OnAdministration(const rpc::From& from, const rpc::Message& message, int64_t now);
  rpc::Body BeginHold(rpc::DeviceHold hold, int64_t now);
  rpc::Body EndHolds(const rpc::DeviceHold& wish, int64_t now);
  rpc::Body RevokeLease(const rpc::LeaseRevoke& wish, int64_t now);
  void Revoke(const rpc::Id& lease, const std::string& why, int64_t now);
  void OnHoldEnd(int64_t now);
  void RemoveHold(const std::string& pattern, const std::string& why);
  // Finds out which hold a device has. If it is a lock, ends its lease.
  void FindHold(const rpc::Id& id, Server& server, int64_t now);
  bool IsLocked(const Server& server) const;
  std::string TextOf(const Hold& hold, int64_t now) const;
  std::string HeldText(const std::string& key, int64_t now) const;
  std::string UnknownPattern(const std::string& pattern) const;
  // ---
  // --- Tuning runs (tracker/tracker_jobs.cc) ---
  void OnJobReport(const rpc::From& from, const rpc::Message& message, int64_t now);
  void ForgetJobs(int64_t now);
  std::vector<FarmJob> Jobs(int64_t now) const;
  // ---
  void OnRequestDue(int64_t now);
  void OnYieldOverdue(int64_t now);
  void MarkYielding(const std::string& key, int64_t now);
  void ScheduleRevocation(const Lease& lease);
  void Round(int64_t now);
  int64_t LeavesQueue(const Waiting& waiting) const;
  void Schedule(int64_t ticket);
  void OnReport(const rpc::From& from, const rpc::Message& message, int64_t now);
  void CompareLeases(Server& server, bool worked, rpc::ReportReply& reply, int64_t now);
  void OnGoodbye(const rpc::From& from, const rpc::ServerGoodbye& goodbye, int64_t now);
  void OnRepeated(const rpc::From& from, const rpc::Message& message, const Request& request, int64_t now);
  void OnLeaseRequest(const rpc::From& from, const rpc::Message& message, int64_t now);
  void OnRenew(const rpc::From& from, const rpc::Id& request, const rpc::LeaseRenew& renew, int64_t now);
  void OnRelease(const rpc::From& from, const rpc::Id& request, const rpc::LeaseRelease& release, int64_t now);
  void OnWithdraw(const rpc::From& from, const rpc::Id& request, const rpc::LeaseWithdraw& withdraw, int64_t now);
  void Dispatch(int64_t now);
  Queue::iterator Leave(Queue::iterator it);
  void Settle(const rpc::Id& request, rpc::Refusal answer, int64_t now);
  Queue::iterator Refuse(Queue::iterator it, std::string code, std::string text, int64_t now);
  std::map<rpc::Id, int64_t> RequestsByClient(const std::set<int64_t>& tickets, int64_t holders) const;
  // Returns true if the client has said that it cannot use this server's device.
  static bool IsUnfit(const rpc::LeaseRequest& wish, const rpc::Id& server);
  // `identity`: of the client that has this wish `since` then. Returns null if there is none.
  Server* FreeServer(const rpc::LeaseRequest& wish, const std::string& identity, int64_t since);
  // Answers a lease request with a device. Returns the lease, which the caller must book in the same input.
  Lease Grant(const rpc::Peer& peer, const rpc::Id& request, const std::string& identity, const Server& server,
              int64_t now);
  void Book(Lease lease, const rpc::LeaseRequest& wish, int64_t waited, Server& server, int64_t now);
  void SendGrant(const rpc::Peer& peer, const Lease& lease, const Server& server);
  // --- Members (tracker/tracker_members.cc) ---
  // Returns whether what belongs to `owner` is the sender's to change. Who is not authenticated is the tracker's own
  // user.
  static bool Owns(const rpc::From& from, const std::string& owner);
  static rpc::Refusal NotYours();
  // Returns whether a client can connect to a server: over TCP, both need keys.
  static bool CanReach(const std::string& client, const Server& server) {
    return client.empty() == server.identity.empty();
  }
  // Returns why a client can reach none of the devices of a key, if there are any; otherwise "".
  std::string OutOfReach(const std::string& client, const std::string& key) const;
  // Returns whether a server that ran over ipc has gone, so that it may come again over TCP.
  static bool IsLeftBehind(const Server& server) { return server.identity.empty() && !server.reachable; }
  // Returns the name of a member's client for others: "alice (al@lab:12)". The client states the second one, so it may
  // be somebody else's.
  static std::string ClientNameOf(const std::string& member, const std::string& stated);
  // Returns the wish with the names that the sender has as a member, if it is one.
  static rpc::LeaseRequest AsMember(const rpc::From& from, rpc::LeaseRequest wish);
  rpc::Body AboutMembers(const rpc::Body& question) const;
  // Notes that a server has registered, so that boards_ need not know it.
  void RegisterBoard(const Server& server);
  // ---
  // Ends a lease, if there is one of this id. An empty `why`: the client gave the device back.
  void EndLease(const rpc::Id& lease, const std::string& why, int64_t now);
  void RemoveServer(const rpc::Id& server, int64_t now);
  void SetUnreachable(const rpc::Id& id, Server& server, std::string why, int64_t now);
  // Reports an event of a server, and of its lease if there is one. Keeps a fault for `status`.
  void Happened(rpc::FarmEvent::Kind kind, const rpc::Id& id, const Server& server, std::string why = "",
                const Lease* lease = nullptr, int64_t now = 0, std::string help = "");
  template <class B>
  void Send(const rpc::Peer& peer, const rpc::Id& request, B body) {
    options_.send(peer, {request, std::move(body), {}});
  }
  bool Recovering(int64_t now) const {
    return Holds(rpc::Rule::kRecovery) && recovering_until_ && now < *recovering_until_;
  }
  const char* StateOf(const Server& server) const;
  std::string WhyOf(const Server& server, int64_t now) const;
  std::vector<rpc::LeaseHolder> Holders(const std::string& key, int64_t now) const;
  rpc::LeaseQueued Explain(const Waiting& waiting, int64_t now) const;
  std::string WhyWaits(const Waiting& waiting, const std::string& place, int64_t now) const;
  std::string UnknownKey(const std::string& key) const;
  Dials Take() { return std::exchange(dialled_, {}); }

  Options options_;
  int64_t started_;
  // Time until which a server that ran before this tracker started may still send its first report. After a restart,
  // all keys of such servers are known.
  int64_t servers_may_arrive_until_;
  std::optional<int64_t> recovering_until_;
  int64_t epoch_, counter_ = 0;
  rpc::StoppedTime stopped_;
  Dials dialled_;  // in this input
  std::map<rpc::Id, Server> servers_;
  std::map<rpc::Peer, rpc::Id> peers_;  // connection of a server -> the server
  rpc::Deadlines<rpc::Id> silences_;    // of servers: when they count as unreachable and, after that, are forgotten
  rpc::Deadlines<rpc::Id> due_dials_;   // of servers: when they may be dialled
  rpc::Deadlines<rpc::Id> dials_;       // of servers that are being dialled: when they have not answered in time
  int64_t dials_until_ = 0;             // end of the dials so far, if each took between_dials_ms
  rpc::Id next_lease_;                  // id of the lease that is granted next
  std::map<rpc::Id, Lease> leases_;
  rpc::Deadlines<rpc::Id> expiries_;     // of leases
  rpc::Deadlines<rpc::Id> revocations_;  // of leases that must yield
  Queue queue_;
  rpc::Deadlines<int64_t> due_;  // of tickets: when their requests end unless something happens
  int64_t last_ticket_ = 0;
  std::map<std::string, std::set<int64_t>> waiting_;  // key -> tickets of the requests for it
  std::unordered_map<rpc::Id, Request, HashOfId> requests_;
  std::map<std::string, int64_t> keys_;             // key that a server has offered -> time of the latest report
  std::map<std::string, std::string> failed_keys_;  // key -> why its devices will not come back
  std::map<rpc::Id, Job> jobs_;                     // by run
  std::map<std::string, Hold> holds_;               // by pattern
  std::map<std::string, KnownBoard> boards_;        // by server: those that have not reported since the start
  rpc::Deadlines<std::string> hold_ends_;           // of those that end by themselves
  // Answers to administrators' latest requests, which are sent again if a request is repeated.
  std::deque<std::pair<rpc::Id, rpc::Body>> answers_;
  std::deque<std::pair<int64_t, std::string>> errors_;  // the latest, with their times
  std::string next_key_;                                // of this tracker
  LeaseWaits lease_waits_;
  int64_t grants_ = 0, expired_ = 0, malformed_ = 0, changes_ = 0;
  int64_t next_round_ = 0;
};

}  // namespace autotune
