#include "rpc/address.h"

#include <algorithm>

#include "support/hint.h"
#include "support/join.h"
#include "support/own_addresses.h"

namespace autotune::rpc {
namespace {

// A name or an IPv4 address, an IPv6 address in brackets, or "*" for all addresses of a host that listens.
bool IsHost(const std::string& text) {
  constexpr char kName[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  if (text == "*") return true;
  if (text.starts_with("[") && text.ends_with("]")) {
    const std::string inner = text.substr(1, text.size() - 2);
    const size_t zone = inner.find('%');  // such as %eth0 of a link-local address
    const std::string digits = inner.substr(0, zone);
    return digits.find(':') != std::string::npos &&
           digits.find_first_not_of("0123456789abcdefABCDEF:.") == std::string::npos &&
           (zone == std::string::npos || inner.find_first_not_of(kName, zone + 1) == std::string::npos);
  }
  return !text.empty() && text.find_first_not_of(kName) == std::string::npos;
}

}  // namespace

Result<std::string> NormalizeEndpoint(const std::string& text) {
  std::string rest = text;
  if (rest.starts_with("/")) rest = "ipc://" + rest;
  if (rest.starts_with("ipc://")) {
    std::string path = rest.substr(6);
    if (!path.starts_with("/")) return Err("endpoint ", text, ": an ipc path must be absolute");
    // sun_path holds 108 bytes, and ZeroMQ cuts off longer paths without an error.
    if (path.size() > 107) return Err("endpoint ", text, ": an ipc path has at most 107 bytes");
    return rest;
  }
  if (IsTcp(rest)) rest = rest.substr(6);
  if (rest.find("://") != std::string::npos) return Err("endpoint ", text, ": only ipc:// and tcp:// are known");
  size_t colon = rest.rfind(':');
  if (colon == std::string::npos) return Err("endpoint ", text, ": expected HOST:PORT or an absolute path");
  std::string host = rest.substr(0, colon), port = rest.substr(colon + 1);
  bool digits = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
  if (port != "*" && !(digits && std::stoi(port) <= 65535)) return Err("endpoint ", text, ": bad port '", port, "'");
  if (!IsHost(host)) {
    return Err("endpoint ", text, ": bad host '", host, "'",
               host.find(':') == std::string::npos ? "" : " (an IPv6 address needs brackets: [" + host + "])");
  }
  return "tcp://" + host + ":" + (port == "0" ? "*" : port);
}

std::vector<std::string> ReachableEndpoints(const std::string& bound) {
  constexpr size_t kMost = 8;
  if (!bound.starts_with("tcp://0.0.0.0:") && !bound.starts_with("tcp://[::]:")) return {bound};
  std::vector<std::string> endpoints;
  const bool only_ipv4 = bound.starts_with("tcp://0");
  for (const std::string& address : OwnAddresses()) {
    if (endpoints.size() < kMost && !(only_ipv4 && address.starts_with("[")))
      endpoints.push_back("tcp://" + address + ":" + PortOf(bound));
  }
  if (endpoints.empty()) endpoints.push_back("tcp://127.0.0.1:" + PortOf(bound));
  return endpoints;
}

std::string Address::Text() const { return Joined(endpoints, ", "); }

Result<Address> NormalizeAddress(Address address) {
  if (address.endpoints.empty()) return Err("an address without an endpoint");
  std::vector<std::string> endpoints;
  for (const std::string& text : address.endpoints) {
    std::string endpoint = TRY(NormalizeEndpoint(text));
    if (std::ranges::find(endpoints, endpoint) == endpoints.end()) endpoints.push_back(std::move(endpoint));
  }
  address.endpoints = std::move(endpoints);
  const auto tcp = std::count_if(address.endpoints.begin(), address.endpoints.end(), IsTcp);
  if (tcp == 0) return address;
  if (tcp < static_cast<int64_t>(address.endpoints.size())) return Err(address.Text(), ": both TCP and ipc");
  if (address.public_key.empty() || address.own.secret_key.empty()) {
    return WithHint(Err("endpoint ", address.endpoints[0], ": a connection over TCP needs the keys of a join file"),
                    "give the file that `rpc_tracker invite NAME --role client|server` has made with --join");
  }
  TRY(CheckCurveKeys(address.own));
  if (!IsCurveKey(address.public_key)) return Err(address.Text(), ": the listener's key is not 40 characters of Z85");
  return address;
}

}  // namespace autotune::rpc
