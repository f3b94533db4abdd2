// Claims: one process at a time continues a tuning run. Two would measure the same candidates, and count each other's
// trials as their own. This file has the rules of claims, which all stores share, and no storage. ClaimRules is not
// thread-safe; everything else is.
//
// An owner promises to renew its claim within a time to live. A claim ends if its owner is dead, which only processes
// of the same host can see, or if it was not renewed for that time. No two hosts compare their clocks: a store counts
// the renewals, and each process measures on its own clock for how long the count has not changed.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "support/fields.h"
#include "support/result.h"

namespace autotune {

// A process that continues a run, as all hosts that share a store know it.
struct RunOwner {
  std::string id;    // a UUID, new for each owner
  std::string host;  // name of the host, for messages
  std::string
      processes;  // the host's boot and PID namespace, within which `pid` and `started` identify a process; or ""
  int64_t pid = 0;
  int64_t started = 0;  // as in ProcessStat
  AUTOTUNE_FIELDS(id, host, processes, pid, started)

  std::string Text() const;  // "process 4711 on host mill"
};

// Returns this process, as a new owner.
RunOwner NewRunOwner();

enum class OwnerState { kAlive, kDead, kUnknown };
// kUnknown: the owner runs on another host or in another container than this process.
OwnerState StateOf(const RunOwner& owner);

// A claim as a store keeps it.
struct StoredClaim {
  RunOwner owner;
  int64_t renewals = 0;  // since the owner claimed the run
  int64_t ttl_ms = 0;    // the owner's time to live
};

// The answer to a claim.
struct RunClaim {
  bool granted = false;
  RunOwner owner;  // if not granted: the owner; without an id if the claim was lost to an owner that has released it
  // If not granted: a claim after so many milliseconds is granted, unless the owner renews before. Nothing: the owner
  // is alive, or the claim was lost.
  std::optional<int64_t> wait_ms;
};

// The owners of runs that a store has seen and granted.
class ClaimRules {
 public:
  // Judges a claim of `owner`. `stored` is the run's claim in the store, if any. If the answer is a grant, the store
  // must keep `next`. An owner whose claim was lost does not get it again: another owner may have measured meanwhile.
  RunClaim Judge(std::string_view run, const RunOwner& owner, int64_t ttl_ms, const std::optional<StoredClaim>& stored,
                 int64_t now_ms, StoredClaim* next);
  void Release(std::string_view run, const RunOwner& owner);

  // True if this object has granted the run to an owner. Only then the store must check with MayAppend.
  bool Watches(std::string_view run) const { return granted_.count(std::string(run)) > 0; }
  // Returns an error if the run was granted to an owner that has lost it since.
  Status MayAppend(std::string_view run, const std::optional<StoredClaim>& stored) const;

 private:
  struct Seen {
    std::string owner;
    int64_t renewals = 0;
    int64_t since_ms = 0;
  };
  std::map<std::string, std::string> granted_;  // ids of owners, by run
  std::map<std::string, Seen> seen_;            // claims of owners whose state is unknown, by run
};

}  // namespace autotune
