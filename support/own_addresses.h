// The addresses of this host. Thread-safe.
#pragma once
#include <string>
#include <vector>

namespace autotune {

// Returns the addresses by which other hosts may reach this one: IPv4 first ("10.0.0.7"), then IPv6 ("[fd00::7]").
// Those of loopback and link-local addresses, which hold for one host or one cable, are left out.
std::vector<std::string> OwnAddresses();

}  // namespace autotune
