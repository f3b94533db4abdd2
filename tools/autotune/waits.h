// Tells the user for what this process waits, and since when. Not thread-safe.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "support/host_lock.h"

namespace autotune::tools {

// Formats a wait that began at `since` on the clock BootMillis: "waiting for a device since 14:05:12 (42s): REASON".
std::string WaitText(const std::string& what, int64_t since, const std::string& reason);

// Limits the lines about waits to one a minute for each thing that is waited for, unless there is another kind of
// reason, such as a device that cannot be reached. Two tuners on one host wait for each other in every round, for a
// second or two.
class WaitLines {
 public:
  // Returns true if the caller should print a line now.
  bool IsDue(const std::string& what, const std::string& reason);

 private:
  struct Latest {
    int64_t time = 0;  // BootMillis
    std::string kind;  // of the reason
  };
  std::map<std::string, Latest> last_;  // by thing
};

// Prints notes on standard error about waits for the host's lock, while it exists.
class HostWaitNotes {
 private:
  WaitLines lines_;
  HostWaitWatch watch_{[this](const HostWait& wait) { Note(wait); }};
  void Note(const HostWait& wait);
};

}  // namespace autotune::tools
