// Who sent a message, and which parties may send which messages. The transport names the sender; the state machines
// decide by it. Plain values.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>

#include "rpc/message.h"

namespace autotune::rpc {

using Peer = std::string;  // ZeroMQ's routing id of one connection: a peer that connects again gets a new one

enum class Role : uint8_t { kTracker = 1, kServer = 2, kClient = 4, kAdmin = 8 };

class Roles {
 public:
  constexpr Roles() = default;
  constexpr Roles(std::initializer_list<Role> roles) {
    for (Role role : roles) bits_ |= static_cast<uint8_t>(role);
  }
  constexpr bool Has(Role role) const { return bits_ & static_cast<uint8_t>(role); }
  constexpr bool IsOnly(Role role) const { return bits_ == static_cast<uint8_t>(role); }
  constexpr bool HasOneOf(Roles others) const { return bits_ & others.bits_; }

 private:
  uint8_t bits_ = 0;
};
// What a peer may be that connects without authentication: anything but the tracker, which is the side that listens.
inline constexpr Roles kUnauthenticated = {Role::kServer, Role::kClient, Role::kAdmin};

struct From {
  Peer peer;             // the connection; empty: the one to which this process has connected
  std::string identity;  // public key (rpc/curve_keys.h); empty: the connection is not authenticated
  std::string name;      // of the member of the farm who has that key
  Roles roles;           // what the sender may be
  std::string address;   // IP address, of IPv6 in brackets; empty: it is on this host
};

// Returns the parties that may send this message. Messages between a server and its runner come from none of them.
Roles SendersOf(const Body& body);
// Returns the refusal of a message that its sender may not send, or nullopt if it may.
std::optional<Refusal> RefusalOf(const From& from, const Message& message);

}  // namespace autotune::rpc
