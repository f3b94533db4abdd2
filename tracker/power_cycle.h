// PowerCycle decides whose power to switch off and on: that of members from whose hosts no server reports any more. A
// board that hangs often needs nothing else. It knows no clock and starts no process; tools/power_switch.h does. Not
// thread-safe.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rpc/message.h"
#include "support/fields.h"

namespace autotune {

// How long a member's server has not reported.
struct ServerSilence {
  rpc::Id server;
  std::string key, member, address;  // `address`: of the host from which it last reported
  int64_t silent_ms = 0;
  bool reports = false;  // it is not given up yet
  bool held = false;     // an administrator has drained or locked the device
};

// A server of a member, as the next tracker has to know it: its board may hang before it reports to that tracker.
struct KnownBoard {
  std::string server, key, address;  // as in ServerSilence
  std::string member_key;            // the member's public key
  AUTOTUNE_FIELDS(server, key, address, member_key)
};

class PowerCycle {
 public:
  struct Options {
    // Silence before the first switch. The wait for each further one in the same silence is three times as long: what
    // two switches have not mended will rarely be mended by a third, and a file system may be under repair.
    int64_t after_ms = 300000;
    int most_a_day = 3;  // switches of one member in 24 hours
  };
  explicit PowerCycle(Options options) : options_(options) {}

  // Returns a silent server of each member that is to be switched now, and counts the switch. A member has one host
  // (its join file is for one), so a member with any server that reports is spared, and so is one with a held device.
  // If several members have servers and none of them reports, it is rather this host that has lost the network: nobody
  // is switched.
  std::vector<ServerSilence> Due(const std::vector<ServerSilence>& servers, int64_t now);
  // Returns how often a member was switched in the last 24 hours.
  int Switches(const std::string& member, int64_t now) const;

 private:
  bool IsDue(const ServerSilence& server, int64_t now) const;

  Options options_;
  std::map<std::string, std::vector<int64_t>> switched_;  // by member: the times of the last 24 hours
};

}  // namespace autotune
