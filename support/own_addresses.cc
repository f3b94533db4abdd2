#include "support/own_addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <memory>

namespace autotune {

std::vector<std::string> OwnAddresses() {
  ifaddrs* found = nullptr;
  if (getifaddrs(&found)) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(found, freeifaddrs);
  std::vector<std::string> v4, v6;
  for (const ifaddrs* at = found; at; at = at->ifa_next) {
    if (!at->ifa_addr || !(at->ifa_flags & IFF_UP) || at->ifa_flags & IFF_LOOPBACK) continue;
    char text[INET6_ADDRSTRLEN] = "";
    if (at->ifa_addr->sa_family == AF_INET) {
      const in_addr& address = reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr;
      const bool link_local = ntohl(address.s_addr) >> 16 == 0xa9fe;  // 169.254.0.0/16, RFC 3927
      if (!link_local && inet_ntop(AF_INET, &address, text, sizeof text)) v4.emplace_back(text);
    } else if (at->ifa_addr->sa_family == AF_INET6) {
      const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(at->ifa_addr)->sin6_addr;
      if (!IN6_IS_ADDR_LINKLOCAL(&address) && inet_ntop(AF_INET6, &address, text, sizeof text))
        v6.push_back("[" + std::string(text) + "]");
    }
  }
  v4.insert(v4.end(), v6.begin(), v6.end());
  return v4;
}

}  // namespace autotune
