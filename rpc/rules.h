// The rules by which the farm defends itself against faults and attacks. Product code asks Holds(rule) where it applies
// one, and the answer is always true. Tests compile the same sources once more with AUTOTUNE_BREAKABLE, where one rule
// or more can be switched off. So they show that each fault or attack does harm without the rule that stops it.
#pragma once
#include <cstdint>
#include <string_view>

#include "support/fields.h"

namespace autotune {
namespace rpc {
enum class Rule {
  // --- Server ---
  kFencing,      // a claim with a lower token is refused
  kEndedLease,   // a claim of a lease that has ended is refused
  kIncarnation,  // a grant holds for one incarnation of its server
  kKillsOnLoss,  // the end of a lease kills what runs for it
  kResends,      // results are sent again until they are acknowledged
  kRemembers,    // a batch whose request is repeated is not measured again
  kFreshRuns,    // only results of the present run are taken
  kYieldStops,   // no candidate starts for a lease that must yield
  kRepeats,      // a candidate that fails runs once more before it is charged
  kFreshRunner,  // this second run is in a runner that has run nothing else
  kOwnRunner,    // a runner that has run a client's candidates runs no other client's
  kSpares,       // what ends or stops a runner from outside is not the candidate's fault
  kEndsBatch,    // a device error ends the batch
  kProbes,       // a failed device serves again only after a probe
  kCallsOnce,    // a call that is repeated is not run again
  kCallRunner,   // the calls of a session run in a runner that runs nothing else
  kCallsEnd,     // the end of this runner ends the session
  // --- Client ---
  kAnswersOnce,   // one result of each candidate is delivered
  kSilentServer,  // a silent server is given up
  kRetries,       // candidates of a lost device go to another one
  kAsksAgain,     // unanswered requests for a device are repeated
  kThirdDevice,   // a candidate that two devices failed with goes to no third one
  // --- Tracker ---
  kOneHolder,    // a leased device is granted to nobody else
  kExpiry,       // a lease that is not renewed ends
  kRecovery,     // a restarted tracker grants nothing until servers have reported
  kRevocation,   // a holder that does not yield loses its lease
  kQueueOrder,   // who came first is served first
  kSilentQueue,  // a silent client leaves the queue
  kHolds,        // a held device is granted to nobody
  // --- All ---
  kStoppedTime,  // time in which a process was stopped counts for nobody's silence
  // --- Against attacks (tests/hostile/twins_test.cc shows that they are needed) ---
  kPlausible,    // a claim with a token that no tracker can have given out is refused
  kSecretIds,    // the status shows the beginnings of leases only
  kLimits,       // a message that exceeds the limits of its fields is refused
  kMemoryWatch,  // all connections are closed if unfinished messages take much memory
  kDropsUnread,  // what a runner has sent before a request is no answer to it
  kPhases,       // outputs of a reference are taken only while the reference runs
  kAllowList,    // whoever has no key of a member is refused, also if it was revoked meanwhile
  kRoles,        // a member may send the messages of its role only
  kOwners,       // a member's leases and servers are its own
  kProof,        // a client proves that its lease was granted to its key
  kKeys,         // over TCP, whoever shows no key is refused
  kHandshakes,   // a connection whose handshake takes long is closed
};
}  // namespace rpc
AUTOTUNE_ENUM(rpc::Rule, "fencing", "ended-lease", "incarnation", "kills-on-loss", "resends", "remembers", "fresh-runs",
              "yield-stops", "repeats", "fresh-runner", "own-runner", "spares", "ends-batch", "probes", "calls-once",
              "call-runner", "calls-end", "answers-once", "silent-server", "retries", "asks-again", "third-device",
              "one-holder", "expiry", "recovery", "revocation", "queue-order", "silent-queue", "holds", "stopped-time",
              "plausible", "secret-ids", "limits", "memory-watch", "drops-unread", "phases", "allow-list", "roles",
              "owners", "proof", "keys", "handshakes")
}  // namespace autotune

namespace autotune::rpc {

#ifdef AUTOTUNE_BREAKABLE
// Switches rules off in this process, by their names with commas between them; "": none is off. All functions are
// thread-safe.
void BreakRule(std::string_view names);
uint64_t BrokenRules();  // a bit for each
inline bool Holds(Rule rule) { return !(BrokenRules() >> static_cast<int>(rule) & 1); }
#else
constexpr bool Holds(Rule) { return true; }
#endif

}  // namespace autotune::rpc
