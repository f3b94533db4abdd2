// What happens in a farm: the events of devices and leases that a tracker and a device server report to their operator,
// and the events of candidates. Plain values. Keys and names come from peers; Text makes them printable.
#pragma once
#include <functional>
#include <string>

#include "rpc/message.h"

namespace autotune::rpc {

struct FarmEvent {
  enum class Kind {
    kRegistered,   // a server has reported for the first time, or again after a silence or a restart
    kUnreachable,  // a server is silent or disconnected, or the tracker cannot connect to its address
    kLeft,         // a server has said that it ends
    kLeased,
    kReturned,     // the client gave the device back
    kLost,         // the lease ended otherwise; `why` says how
    kQuarantined,  // a device has failed; `why` says how
    kRecovered,    // a quarantined device has passed its probe
    kDrained,      // devices are granted to nobody; `why` says by whose wish
    kLocked,       // so, and their leases are revoked
    kHoldEnded,    // this is over; `why` says how
  };
  Kind kind = Kind::kRegistered;
  Id server;
  std::string key;       // of kDrained, kLocked and kHoldEnded: a pattern of devices
  std::string endpoint;  // of kRegistered: the server's address for clients
  LeaseHolder holder;    // of kLeased, kReturned, kLost
  Id lease, client;      // of those, too
  Id request;            // of kLeased: the request that the tracker grants; empty if a server reported the lease
  Token token;
  std::string why;   // of kUnreachable, kLost, kQuarantined, and of drains and locks
  std::string help;  // of kUnreachable: what the operator may do; for the log alone
  AUTOTUNE_FIELDS(kind, server, key, endpoint, holder, lease, client, request, token, why)
};

struct CandidateEvent {
  enum class Kind {
    kIssued,    // a client wants to know its time
    kBegan,     // a server has a runner run it
    kEnded,     // the run is over; `status` is empty if the candidate will run again
    kAnswered,  // the client has accepted a result
  };
  Kind kind = Kind::kIssued;
  Id client;
  std::string candidate;  // unique among the candidates of the client
  Id server, lease;       // of kBegan and kEnded
  std::string status;     // of kEnded and kAnswered: a TrialStatus
  AUTOTUNE_FIELDS(kind, client, candidate, server, lease, status)
};

using OnFarmEvent = std::function<void(FarmEvent)>;

// Returns one line: "`rpi4` (server 1a2b3c4d) leased to ann@lab:411 for the job resnet".
std::string Text(const FarmEvent& event);

// Returns whether a key may name devices: 1 to 256 letters, digits, '.', '_', ':' and '-' of ASCII. So a key needs no
// quotes in a shell and no escapes in a log.
bool IsKey(std::string_view key);
inline constexpr char kKeyRule[] = "a key has 1 to 256 letters, digits, '.', '_', ':' and '-'";

}  // namespace autotune::rpc

namespace autotune {
AUTOTUNE_ENUM(rpc::FarmEvent::Kind, "registered", "unreachable", "left", "leased", "returned", "lost", "quarantined",
              "recovered", "drained", "locked", "hold ended")
AUTOTUNE_ENUM(rpc::CandidateEvent::Kind, "issued", "began", "ended", "answered")
}  // namespace autotune
