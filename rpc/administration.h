// The messages of a farm's administrators, and the patterns by which they name devices. All since version 2.4. Plain
// values and pure functions.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/limits.h"
#include "support/fields.h"

namespace autotune::rpc {

inline constexpr size_t kMostHolds = 256;   // of a tracker
inline constexpr size_t kMostNamed = 1000;  // devices that an answer lists

namespace hold {
inline constexpr char kDrain[] = "drain", kLock[] = "lock", kNone[] = "none";
}
// Keeps the devices that match a pattern from being granted, those that register later included. It replaces an earlier
// hold of the same pattern. `lock` also ends the leases of these devices. `none` ends the holds whose patterns are, or
// match, this one.
struct DeviceHold {
  static constexpr std::string_view kKind = "device_hold";
  std::string pattern;  // see IsPattern
  std::string how;      // a constant of namespace hold; later versions may add some
  int64_t for_ms = 0;   // time until the hold ends by itself; 0: never
  std::string note;     // why, for those who wait
  std::string who;      // "user@host" of the administrator
  AUTOTUNE_FIELDS(pattern, how, for_ms, note, who)
  AUTOTUNE_LIMITS({"pattern", kNameBytes}, {"how", kIdBytes}, {"note", kNameBytes}, {"who", kNameBytes})
};
struct HeldDevice {
  std::string server;       // the first digits of its id
  std::string key, state;   // `state`: a constant of namespace device_state
  std::string client_name;  // who has the device, or had it until now
  AUTOTUNE_FIELDS(server, key, state, client_name)
  AUTOTUNE_LIMITS({"server", kIdBytes}, {"key", kNameBytes}, {"state", kIdBytes}, {"client_name", kNameBytes})
};
struct DeviceHeld {
  static constexpr std::string_view kKind = "device_held";
  std::vector<std::string> patterns;  // of the holds that began or ended
  std::vector<HeldDevice> devices;    // that match, with their new state
  int64_t omitted = 0;                // further devices that match
  AUTOTUNE_FIELDS(patterns, devices, omitted)
  AUTOTUNE_LIMITS({"patterns", kNameBytes, kMostHolds}, {"devices", 0, kMostNamed})
};
struct LeaseRevoke {  // ends a lease; its client may ask for a device again
  static constexpr std::string_view kKind = "lease_revoke";
  std::string lease;  // the first digits of its id, if no other lease begins with them
  std::string who;    // as of a hold
  AUTOTUNE_FIELDS(lease, who)
  AUTOTUNE_LIMITS({"lease", kIdBytes}, {"who", kNameBytes})
};
struct LeaseRevoked {
  static constexpr std::string_view kKind = "lease_revoked";
  std::string lease, server;     // the first digits of their ids
  std::string key, client_name;  // the device, and who had it
  AUTOTUNE_FIELDS(lease, server, key, client_name)
  AUTOTUNE_LIMITS({"lease", kIdBytes}, {"server", kIdBytes}, {"key", kNameBytes}, {"client_name", kNameBytes})
};

// Returns whether a text may name devices: 1 to 256 characters of a key, '*' and '?'.
bool IsPattern(std::string_view pattern);
inline constexpr char kPatternRule[] = "a pattern has 1 to 256 letters, digits, '.', '_', ':', '-', '*' and '?'";

// Returns whether a text matches a pattern, in which '*' stands for any characters and '?' for one.
bool MatchesGlob(std::string_view pattern, std::string_view text);

// Returns whether a pattern names a device: it matches its key, or matches the beginning of `server`, the first digits
// of its id. For the latter, four characters at least must come before the first '*' or '?', so that a pattern of keys,
// such as "a*", does not also name one of 16 servers by chance.
bool NamesDevice(std::string_view pattern, std::string_view key, std::string_view server);

// Describes a drain or a lock: "drained by ann@lab until 14:05: new fan". `until` says for a number of milliseconds
// when they will be over: "until 14:05".
std::string HoldText(const DeviceHold& hold, const std::function<std::string(int64_t)>& until);
// Returns the name of an administrator, printable.
std::string AdminText(std::string_view who);

}  // namespace autotune::rpc
