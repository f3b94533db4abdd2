#include "tests/simulator/ledger/ledger.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace autotune {

using What = Entry::What;

void Ledger::Violation(int64_t at, std::string_view promise, const std::string& text) {
  constexpr size_t kMost = 1000;
  if (violations_.size() < kMost)
    violations_.push_back(std::string(promise) + ": at " + std::to_string(at) + " ms: " + text);
}

std::set<std::string> Ledger::BrokenPromises() const {
  std::set<std::string> promises;
  for (const std::string& violation : violations_) promises.insert(violation.substr(0, violation.find(':')));
  return promises;
}

bool Ledger::HasCause(int64_t at, const std::string& server, const std::string& client) const {
  if (options_.faults_unknown) return true;
  return std::ranges::any_of(faults_, [&](const Entry& fault) {
    if (fault.until + options_.echo_ms < at) return false;
    if (fault.server.empty() && fault.client.empty()) return true;
    if (!fault.server.empty() && !fault.client.empty()) return fault.server == server && fault.client == client;
    return fault.server.empty() ? fault.client == client : fault.server == server;
  });
}

// Returns whether a fault of the tracker has lasted beyond `since`.
bool Ledger::TrackerFailedAfter(int64_t since) const {
  return std::ranges::any_of(faults_,
                             [&](const Entry& f) { return f.server.empty() && f.client.empty() && f.until >= since; });
}

void Ledger::OnFault(const Entry& e) {
  ++faults_count_;
  while (!faults_.empty() && faults_.front().until + options_.echo_ms < e.at) faults_.pop_front();
  faults_.push_back(e);
  if (!e.client.empty() && e.status == "restart") {
    died_[e.client] = e.at;
    std::erase_if(waiting_, [&](const auto& w) { return w.second.client == e.client; });
  }
  if (e.server.empty() && e.client.empty() && e.status == "restart") {
    waiting_.clear();
    tracker_leases_.clear();
  }
}

void Ledger::OnHeld(const Entry& e) {
  ++faults_count_;
  Device& device = devices_[e.server];
  device.held_since = e.at;
  device.held_until = e.until;
  device.locked = e.status == "lock";
  latest_hold_end_ = std::max(latest_hold_end_, e.until);
}

bool Ledger::HeldAfter(int64_t since) const { return latest_hold_end_ + options_.echo_ms > since; }

// Returns whether the holder had long enough to yield. One that does not yield loses its lease. If it does and that is
// lost on the way, the lease ends without a word.
bool Ledger::HadToYield(const LeaseBook& book, int64_t at) const {
  return book.must_yield && *book.must_yield + options_.late_ms < at;
}

bool Ledger::WasGivenBack(const LeaseBook& book, int64_t at) const {
  return book.gave_back && at - *book.gave_back <= options_.dead_ms;
}

// --- Clients ---------------------------------------------------------------------------------------------------------

void Ledger::OnClient(const Entry& e) {
  CandidateBook& book = candidates_[e.candidate];
  switch (e.what) {
    case What::kIssued:
      ++issued_;
      if (!book.client.empty()) Violation(e.at, "whole-books", e.candidate + " was issued twice");
      book.client = e.client;
      return;
    case What::kAbandoned:
      book.abandoned = true;
      return;
    case What::kHeardDeviceError:
      ++book.device_errors;
      return;
    default:
      break;
  }
  ++answered_;
  infrastructure_ += e.status == "infrastructure";
  if (book.client != e.client)
    Violation(e.at, "answered-once", e.client + " got " + e.candidate + ", which is not its");
  if (std::exchange(book.answered, true)) Violation(e.at, "answered-once", e.candidate + " was answered twice");
  if (book.abandoned) Violation(e.at, "answered-once", e.candidate + " was answered after its client's end");
  if (e.status == "infrastructure" && !options_.faults_unknown)
    Violation(e.at, "retried", e.candidate + " was given up");
  if (e.status == "ok" && book.executions.empty()) Violation(e.at, "honest-results", e.candidate + " never ran");
  CheckCharge(e, book);
}

// A candidate is charged with a failure if it has computed until its deadline, or if it has failed twice in a lease,
// the second time in a fresh runner.
void Ledger::CheckCharge(const Entry& e, const CandidateBook& book) {
  if (e.status == "ok" || e.status == "cancelled" || e.status == "infrastructure" || e.status == "device error") return;
  if (options_.faults_unknown) return;
  const auto& runs = book.executions;
  std::set<std::string> failed_in;  // leases
  for (const Execution& run : runs) {
    if (run.status == "computed") return;
    if (run.status == "ok") continue;
    if (!failed_in.insert(run.lease).second && run.fresh) return;
  }
  std::string text = e.candidate + " was charged with '" + e.status + "' after the runs";
  for (const Execution& run : runs)
    text += " " + run.lease.substr(0, 4) + (run.fresh ? " (fresh): '" : ": '") + run.status + "'";
  Violation(e.at, "second-chance", text);
}

// --- Tracker ---------------------------------------------------------------------------------------------------------

void Ledger::OnQueue(const Entry& e) {
  if (e.what == What::kAsked) {
    // A tracker that was stopped may read the request of a client that has died meanwhile.
    if (died_.contains(e.client)) return;
    // A client has one request at a time; it may have given up an earlier one in silence.
    std::erase_if(waiting_, [&](const auto& w) { return w.second.client == e.client && w.first != e.request; });
    const auto before = std::ranges::count_if(waiting_, [&](const auto& w) { return w.second.key == e.key; });
    waiting_.try_emplace(e.request, Waiting{e.client, e.key, e.at, before, e.picky});
  } else {
    waiting_.erase(e.request);
  }
}

void Ledger::CheckWait(const Entry& e, const Waiting& served) {
  if (options_.faults_unknown) return;
  const int64_t waited = e.at - served.since;
  const bool calm =
      std::ranges::none_of(faults_, [&](const Entry& f) { return f.until + options_.echo_ms > served.since; });
  if (calm && !HeldAfter(served.since) && waited > (served.before + 1) * options_.turn_ms)
    Violation(e.at, "shared-devices", served.client + " waited for " + std::to_string(waited) + " ms");
  for (const auto& [request, other] : waiting_) {
    const bool overtaken = other.key == served.key && other.since + options_.late_ms < served.since && !other.picky &&
                           !HasCause(e.at, "", other.client);
    if (overtaken) Violation(e.at, "queue-order", served.client + " was served before " + other.client);
  }
}

void Ledger::OnGranted(const Entry& e) {
  Device& device = devices_[e.server];
  std::string& open = tracker_leases_[e.identity];
  if (!open.empty())
    Violation(e.at, "one-holder", e.server + " was leased to " + e.client + " while " + open + " held it");
  open = e.lease;
  const std::pair token{e.epoch, e.counter};
  if (!e.request.empty() && token <= device.granted_token && !options_.unknown_tokens)
    Violation(e.at, "tokens-grow", "the token of " + e.lease + " is not above the one before");
  device.granted_token = std::max(device.granted_token, token);
  constexpr int64_t kDriftMs = 100;  // by which the tracker's clock may end a hold too early
  if (!e.request.empty() && e.at > device.held_since && e.at + kDriftMs < device.held_until)
    Violation(e.at, "held-devices", e.server + " was leased to " + e.client + " while an administrator held it");
  LeaseBook& book = leases_[e.lease];
  book.server = e.server;
  book.client = e.client;
  std::tie(book.epoch, book.counter) = token;
  if (book.granted < 0) book.granted = e.at;
  if (auto waited = waiting_.find(e.request); waited != waiting_.end()) {
    const Waiting served = waited->second;
    waiting_.erase(waited);
    CheckWait(e, served);
  }
}

void Ledger::OnLeaseEnd(const Entry& e) {
  if (std::string& open = tracker_leases_[e.identity]; open == e.lease) {
    open.clear();
  } else {
    Violation(e.at, "whole-books", "the tracker ends " + e.lease + ", which it has not begun");
  }
  LeaseBook& book = leases_[e.lease];
  book.ended = e.at;
  leased_ms_ += e.at - book.granted;
  const bool disturbed = HasCause(e.at, e.server, e.client);
  book.disturbed |= disturbed && !options_.faults_unknown;
  if (auto died = died_.find(e.client);
      died != died_.end() && e.at - died->second > options_.dead_ms && !TrackerFailedAfter(died->second)) {
    Violation(e.at, "dead-holders", e.client + " held " + e.server + " for long after its end");
  }
  if (e.what == What::kLost) {
    book.lost = true;
    losses_ += lost_leases_.insert(e.lease).second;
    // A lock and a revocation end a lease at once.
    const Device& device = devices_[e.server];
    const bool administered = book.revoked == e.at || (device.locked && device.held_since == e.at);
    if (!disturbed && !administered && !HadToYield(book, e.at) && !WasGivenBack(book, e.at))
      Violation(e.at, "kept-leases", e.client + " lost " + e.server + " without a fault: " + e.why);
  }
}

// --- Servers ---------------------------------------------------------------------------------------------------------

void Ledger::OnServerLease(const Entry& e) {
  Device& device = devices_[e.server];
  LeaseBook& book = leases_[e.lease];
  if (device.server_lease != e.lease)
    Violation(e.at, "whole-books", e.server + " ends " + e.lease + ", which it has not begun");
  device.server_lease.clear();
  book.server_ended = e.at;
  const bool disturbed = HasCause(e.at, e.server, book.client);
  book.disturbed |= disturbed && !options_.faults_unknown;
  if (e.what == What::kServerLost) {
    losses_ += lost_leases_.insert(e.lease).second && book.ended < 0;
    // The tracker may have given the device to the next client before the end of this lease has arrived here.
    if (!disturbed && !book.lost && book.ended < 0 && !HadToYield(book, e.at) && !WasGivenBack(book, e.at))
      Violation(e.at, "kept-leases", e.server + " lost its holder without a fault: " + e.why);
  }
}

void Ledger::OnServerLeased(const Entry& e) {
  Device& device = devices_[e.server];
  LeaseBook& book = leases_[e.lease];
  if (!device.server_lease.empty())
    Violation(e.at, "one-holder", e.server + " serves " + e.lease + " beside " + device.server_lease);
  if (book.server_began >= 0) Violation(e.at, "fencing", e.server + " serves " + e.lease + ", which had ended");
  const std::pair token{e.epoch, e.counter};
  if (book.granted < 0 || token != std::pair{book.epoch, book.counter})
    Violation(e.at, "fencing", e.server + " serves " + e.lease + ", which no tracker has granted with this token");
  if (token <= device.served_token && !options_.unknown_tokens)
    Violation(e.at, "fencing", e.server + " serves " + e.lease + ", whose token is not above the one before");
  device.served_token = std::max(device.served_token, token);
  device.server_lease = e.lease;
  book.server_began = e.at;
}

// Checks the begin of a candidate or a call.
void Ledger::CheckStart(const Entry& e, const std::string& what) {
  Device& device = devices_[e.server];
  LeaseBook& lease = leases_[e.lease];
  if (!device.running.empty())
    Violation(e.at, "one-at-a-time", e.server + " starts " + what + " beside " + device.running);
  if (device.server_lease != e.lease)
    Violation(e.at, "fencing", e.server + " works for " + e.lease + ", which does not hold it");
  const std::pair token{lease.epoch, lease.counter};
  if (token < device.run_token) Violation(e.at, "fencing", e.server + " works for an older lease than before");
  device.run_token = std::max(device.run_token, token);
  if (lease.must_yield) Violation(e.at, "yields", e.server + " starts " + what + " for a lease that must yield");
}

// The calls of a session run in order, each once, in one runner that runs nothing else.
void Ledger::OnCallStarted(const Entry& e) {
  const std::string call = "call " + std::to_string(e.counter) + " of " + e.request;
  CheckStart(e, call);
  CheckDevice(e, "session " + e.request);
  if (e.ran != e.counter - 1) Violation(e.at, "own-runner", call + " runs in a runner that has run something else");
  Device& device = devices_[e.server];
  device.running = e.request;
  device.is_call = true;
  SessionBook& book = sessions_[e.request];
  const bool is_same = book.lease == e.lease;
  const auto token_of = [this](const std::string& lease) {
    return std::pair(leases_[lease].epoch, leases_[lease].counter);
  };
  // The first call may run once more on a device that the client has left before: a server that was frozen finds it,
  // and hears of the end of the lease later. Nobody waits for its reply.
  if (!is_same && e.counter == 1 && !book.lease.empty() && token_of(e.lease) < token_of(book.lease)) return;
  if (is_same && e.counter <= book.number) Violation(e.at, "calls-once", call + " runs again");
  if (!is_same && e.counter == 1) {
    // The first call may go to another device if it was not answered.
    if (book.replied > 0) Violation(e.at, "calls-once", call + " runs again, after its reply");
    book = {.lease = e.lease, .runner = e.runner};
  }
  if (book.lease != e.lease || book.runner != e.runner || e.counter > book.number + 1)
    Violation(e.at, "calls-in-order", call + " does not follow call " + std::to_string(book.number));
  if (book.over) Violation(e.at, "calls-end", call + " runs after the end of its session");
  book.number = e.counter;
}

void Ledger::OnCallReplied(const Entry& e) {
  SessionBook& book = sessions_[e.request];
  const std::string call = "call " + std::to_string(e.counter) + " of " + e.request;
  if (e.counter != book.replied + 1) Violation(e.at, "answered-once", call + " was answered out of order");
  if (e.status == "ok" && e.counter > book.number) Violation(e.at, "honest-results", call + " never ran");
  book.replied = e.counter;
}

void Ledger::OnStarted(const Entry& e) {
  ++executions_;
  CheckStart(e, e.candidate);
  CheckDevice(e, leases_[e.lease].client);
  Device& device = devices_[e.server];
  device.is_call = false;
  CandidateBook& book = candidates_[e.candidate];
  CheckRepeat(e, book);
  repeats_ += !book.executions.empty();
  book.executions.push_back({.server = e.server, .lease = e.lease, .fresh = e.ran == 0});
  device.running = e.candidate;
}

// A device that has failed runs nothing until it has passed a probe. A runner serves one client.
void Ledger::CheckDevice(const Entry& e, const std::string& client) {
  Device& device = devices_[e.server];
  ++device.executions;
  if (device.failed_lease == e.lease) {
    Violation(e.at, "ends-batch", e.server + " starts " + e.candidate + " after it failed in " + e.lease);
  } else if (!device.failed_lease.empty()) {
    Violation(e.at, "quarantine", e.server + " starts " + e.candidate + " after it failed, and without a probe");
  }
  if (e.ran == 0 || device.runner != e.runner) {
    device.runner = e.runner;
    device.runner_client = client;
  } else if (device.runner_client != client) {
    Violation(e.at, "own-runner", client + " gets the runner of " + device.runner_client);
  }
}

// A candidate runs again only if something was lost, and once in each lease for a failure of its own.
void Ledger::CheckRepeat(const Entry& e, const CandidateBook& book) {
  int failures = 0;
  for (const Execution& earlier : book.executions) {
    if (earlier.Failed() && earlier.lease == e.lease && ++failures == 2)
      Violation(e.at, "no-idle-work", e.candidate + " is measured a third time");
    if (earlier.lost || lost_leases_.contains(earlier.lease) || lost_leases_.contains(e.lease)) continue;
    Violation(e.at, "no-idle-work", e.candidate + " is measured again, and nothing was lost");
  }
  // A server whose client has left it goes on until it hears of that.
  if (book.device_errors >= 2 && !lost_leases_.contains(e.lease))
    Violation(e.at, "third-device", e.candidate + " starts on " + e.server + " after two devices failed with it");
}

void Ledger::OnEnded(const Entry& e) {
  Device& device = devices_[e.server];
  if (e.what == What::kRestarted) {
    if (!device.server_lease.empty()) losses_ += lost_leases_.insert(device.server_lease).second;
    device.server_lease.clear();
    device.run_token = {-1, -1};
    device.failed_lease.clear();
  }
  if (!device.running.empty() && device.is_call) {
    SessionBook& book = sessions_[device.running];
    book.over |= e.status != "ok";
    if (e.status == "device error") device.failed_lease = book.lease;
  } else if (!device.running.empty()) {
    // The candidate may run elsewhere by now, too.
    std::vector<Execution>& executions = candidates_[device.running].executions;
    const auto here = std::find_if(executions.rbegin(), executions.rend(),
                                   [&](const Execution& execution) { return execution.server == e.server; });
    here->lost = e.status != "ok";
    here->status = e.status;
    if (e.status == "device error") device.failed_lease = here->lease;
  }
  if (e.what == What::kEnded && device.running.empty())
    Violation(e.at, "whole-books", e.server + " ends a candidate that it has not begun");
  if (e.what == What::kClosed && !(device.running.empty() && device.server_lease.empty()))
    Violation(e.at, "whole-books", e.server + " has ended, but not " + device.running + device.server_lease);
  device.running.clear();
}

int64_t Ledger::ExecutionsOn(const std::string& server) const {
  const auto device = devices_.find(server);
  return device == devices_.end() ? 0 : device->second.executions;
}

// ---------------------------------------------------------------------------------------------------------------------

void Ledger::Add(const Entry& e) {
  switch (e.what) {
    case What::kIssued:
    case What::kAnswered:
    case What::kAbandoned:
    case What::kHeardDeviceError:
      return OnClient(e);
    case What::kDropped:
      losses_ += lost_leases_.insert(e.lease).second;
      if (!HasCause(e.at, leases_[e.lease].server, e.client) && leases_[e.lease].ended < 0)
        Violation(e.at, "kept-leases", e.client + " gave its device up without a fault");
      return;
    case What::kGaveBack:
      leases_[e.lease].gave_back = e.at;
      return;
    case What::kHeld:
      return OnHeld(e);
    case What::kRevoked:
      leases_[e.lease].revoked = e.at;
      return;
    case What::kAsked:
    case What::kLeft:
      return OnQueue(e);
    case What::kGranted:
      return OnGranted(e);
    case What::kReturned:
    case What::kLost:
      return OnLeaseEnd(e);
    case What::kServerLeased:
      return OnServerLeased(e);
    case What::kServerReturned:
    case What::kServerLost:
      return OnServerLease(e);
    case What::kMustYield:
      if (!leases_[e.lease].must_yield) leases_[e.lease].must_yield = e.at;
      return;
    case What::kMayStay:
      leases_[e.lease].must_yield.reset();
      return;
    case What::kStarted:
      return OnStarted(e);
    case What::kCallStarted:
      return OnCallStarted(e);
    case What::kCallReplied:
      return OnCallReplied(e);
    case What::kEnded:
    case What::kRestarted:
    case What::kClosed:
      return OnEnded(e);
    case What::kProbed:
      return devices_[e.server].failed_lease.clear();
    case What::kFault:
      return OnFault(e);
  }
}

void Ledger::Close(int64_t at) {
  for (const auto& [name, book] : candidates_) {
    if (!book.answered && !book.abandoned && !book.client.empty())
      Violation(at, "progress", name + " was never answered");
  }
  for (const auto& [request, waiting] : waiting_) {
    if (at - waiting.since > (waiting.before + 1) * options_.turn_ms && !HasCause(at, "", waiting.client) &&
        !HeldAfter(waiting.since))
      Violation(at, "shared-devices", waiting.client + " still waits");
  }
  CompareDeviceSeconds(at);
}

// Compares how long devices were leased by the books of the tracker and of the servers. Leaves out leases that were
// lost or disturbed, and those that one of them has never seen.
void Ledger::CompareDeviceSeconds(int64_t at) {
  if (options_.accuracy == 0) return;
  int64_t tracker_ms = 0, server_ms = 0, leases = 0;
  for (const auto& [lease, book] : leases_) {
    if (book.disturbed || book.lost || book.granted < 0 || book.server_began < 0 || lost_leases_.contains(lease))
      continue;
    if (options_.faults_unknown && (book.ended < 0) != (book.server_ended < 0))
      Violation(at, "whole-books", lease + " has one end only");
    if (book.ended < 0 || book.server_ended < 0) continue;
    ++leases;
    tracker_ms += book.ended - book.granted;
    server_ms += book.server_ended - book.server_began;
  }
  const auto most = options_.accuracy * static_cast<double>(std::max(tracker_ms, server_ms)) +
                    static_cast<double>(options_.tell_ms * leases);
  if (static_cast<double>(std::abs(tracker_ms - server_ms)) <= most) return;
  Violation(at, "device-seconds",
            std::to_string(tracker_ms) + " ms by the tracker, " + std::to_string(server_ms) + " ms by the servers");
}

}  // namespace autotune
