// Where a party listens, and the keys that protect its TCP connections. Plain values.
#pragma once
#include <string>
#include <vector>

#include "rpc/curve_keys.h"
#include "support/result.h"

namespace autotune::rpc {

// Completes an endpoint: "10.0.0.7:9190" -> "tcp://10.0.0.7:9190", "[fd00::7]:9190" -> "tcp://[fd00::7]:9190",
// "/path" -> "ipc:///path". The error says what is wrong.
Result<std::string> NormalizeEndpoint(const std::string& text);
// Returns the endpoints at which others reach a socket that listens at `bound`: if that is all addresses of this host,
// one for each, at most 8.
std::vector<std::string> ReachableEndpoints(const std::string& bound);
inline std::string PortOf(const std::string& endpoint) { return endpoint.substr(endpoint.rfind(':') + 1); }
inline std::string HostOf(const std::string& tcp) { return tcp.substr(6, tcp.rfind(':') - 6); }
inline bool IsTcp(const std::string& endpoint) { return endpoint.starts_with("tcp://"); }

// What a process needs to connect to a listener. Connections over TCP are encrypted, and each side proves who it is.
// An ipc socket has no keys: only its user may connect.
struct Address {
  Address() = default;
  Address(std::string endpoint) : endpoints{std::move(endpoint)} {}
  Address(const char* endpoint) : endpoints{endpoint} {}
  Address(std::vector<std::string> endpoints, std::string public_key, CurveKeys own)
      : endpoints(std::move(endpoints)), public_key(std::move(public_key)), own(std::move(own)) {}

  std::vector<std::string> endpoints;  // of one listener, in the order in which they are tried
  std::string public_key;              // the listener's, for TCP
  CurveKeys own;                       // of this process, for TCP
  std::string next_key;                // the public key that the listener will have later; empty: none is known
  std::string keys_file;               // keeps changes of the listener's key (rpc/tracker_keys.h); empty: nothing does

  std::string Text() const;  // the endpoints, for messages
};
// Completes the endpoints, and drops those that are repeated. Errors: there is none, one is wrong, TCP without keys,
// both TCP and ipc.
Result<Address> NormalizeAddress(Address address);

}  // namespace autotune::rpc
