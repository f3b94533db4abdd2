// What happens to the devices of a farm: the events that a tracker and a device server report to their operator. Plain
// values. Keys and names come from peers; Text makes them printable.
#pragma once
#include <functional>
#include <string>

#include "rpc/message.h"

namespace autotune::rpc {

struct FarmEvent {
  enum class Kind {
    kRegistered,   // a server has reported for the first time, or again after a silence or a restart
    kUnreachable,  // a server is silent or disconnected
    kLeft,         // a server has said that it ends
    kLeased,
    kReturned,     // the client gave the device back
    kLost,         // the lease ended otherwise; `why` says how
    kQuarantined,  // a device has failed; `why` says how
    kRecovered,    // a quarantined device has passed its probe
  };
  Kind kind = Kind::kRegistered;
  Id server;
  std::string key;
  std::string endpoint;  // of kRegistered: the server's address for clients
  LeaseHolder holder;    // of kLeased, kReturned, kLost
  Id lease, client;      // of those, too
  Id request;            // of kLeased: the request that the tracker grants; empty if a server reported the lease
  Token token;
  std::string why;  // of kUnreachable, kLost, kQuarantined
};

using OnFarmEvent = std::function<void(const FarmEvent&)>;

// Returns one line: "`rpi4` (server 1a2b3c4d) leased to ann@lab:411 for the job resnet".
std::string Text(const FarmEvent& event);

// Returns whether a key may name devices: 1 to 256 letters, digits, '.', '_', ':' and '-' of ASCII. So a key needs no
// quotes in a shell and no escapes in a log.
bool IsKey(std::string_view key);
inline constexpr char kKeyRule[] = "a key has 1 to 256 letters, digits, '.', '_', ':' and '-'";

}  // namespace autotune::rpc
