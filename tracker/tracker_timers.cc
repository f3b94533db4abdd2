// What a tracker does as time passes: leases expire, servers fall silent, waits end, devices go to those who wait.
#include <set>
#include <string>

#include "rpc/rules.h"
#include "tracker/tracker_state.h"

namespace autotune {
namespace {

using rpc::Id;
using rpc::Rule;
namespace code = rpc::code;

}  // namespace

// Extends all deadlines by a time in which this process did not run: the renewals and reports of that time are unread.
// The ends of holds stay: administrators have stated them as times of day.
void TrackerState::Advance(int64_t now) {
  const int64_t stopped = stopped_.Before(now, NextWake());
  if (stopped == 0) return;
  if (recovering_until_) *recovering_until_ += stopped;
  servers_may_arrive_until_ += stopped;
  expiries_.PostponeAll(stopped);
  silences_.PostponeAll(stopped);
  due_dials_.PostponeAll(stopped);
  dials_.PostponeAll(stopped);
  dials_until_ += stopped;
  due_.PostponeAll(stopped);
  revocations_.PostponeAll(stopped);
  for (auto& [id, server] : servers_) server.last_seen += stopped;
  for (auto& [id, lease] : leases_) lease.worked += stopped;
  for (auto& [ticket, waiting] : queue_) {
    waiting.heard += stopped;
    waiting.deadline += stopped;
  }
  for (auto& [key, seen] : keys_) seen += stopped;
  for (auto& [id, request] : requests_)
    if (auto* settled = std::get_if<Settled>(&request)) settled->when += stopped;
}

// The time at which a waiting client leaves the queue unless it is heard before.
int64_t TrackerState::LeavesQueue(const Waiting& waiting) const {
  return waiting.heard + (waiting.identity.empty() ? options_.client_silence_ms : options_.member_silence_ms);
}

// Sets the time at which a waiting request ends unless its client is heard or a device becomes free before.
void TrackerState::Schedule(int64_t ticket) {
  const Waiting& waiting = queue_.at(ticket);
  int64_t due = waiting.deadline;
  if (Holds(Rule::kSilentQueue)) due = std::min(due, LeavesQueue(waiting));
  if (!keys_.count(waiting.wish.key)) due = std::min(due, servers_may_arrive_until_);
  due_.Set(ticket, due);
}

rpc::EarliestTimer<TrackerState> TrackerState::Earliest() const {
  using Self = TrackerState;
  rpc::EarliestTimer<Self> timer;
  if (Holds(Rule::kExpiry)) timer.Add(expiries_.Earliest(), &Self::OnLeaseExpired);
  timer.Add(silences_.Earliest(), &Self::OnSilentServer);
  timer.Add(NextDial(), &Self::StartDials);
  timer.Add(dials_.Earliest(), &Self::OnDialOverdue);
  timer.Add(due_.Earliest(), &Self::OnRequestDue);
  timer.Add(hold_ends_.Earliest(), &Self::OnHoldEnd);
  if (Holds(Rule::kRevocation)) timer.Add(revocations_.Earliest(), &Self::OnYieldOverdue);
  if (recovering_until_) timer.Add(*recovering_until_, &Self::EndRecovery);
  if (!servers_.empty() || !queue_.empty() || !requests_.empty() || !keys_.empty() || !jobs_.empty())
    timer.Add(next_round_, &Self::Round);
  return timer;
}

void TrackerState::EndRecovery(int64_t now) {
  recovering_until_.reset();
  Dispatch(now);
}

void TrackerState::OnLeaseExpired(int64_t now) {
  ++expired_;
  EndLease(Id(expiries_.First()), "it expired, since the client did not renew it", now);
  Dispatch(now);
}

void TrackerState::OnYieldOverdue(int64_t now) {
  EndLease(Id(revocations_.First()), "it was not given back in time to a client that waits", now);
  Dispatch(now);
}

void TrackerState::OnSilentServer(int64_t now) {
  const Id id = silences_.First();
  Server& server = servers_.at(id);
  if (now - server.last_seen >= options_.forget_ms) {
    RemoveServer(id, now);
    return;
  }
  silences_.Set(id, server.last_seen + options_.forget_ms);
  SetUnreachable(id, server, "it stopped reporting", now);
  if (server.lease) EndLease(Id(*server.lease), "the server is silent", now);
}

void TrackerState::OnRequestDue(int64_t now) {
  const auto it = queue_.find(due_.First());
  const Waiting& waiting = it->second;
  if (now >= LeavesQueue(waiting)) {
    Settle(waiting.request, {code::kLeaseLost, "this client was silent for too long"}, now);
    Leave(it);
  } else if (now >= waiting.deadline) {
    Refuse(it, code::kTimedOut, "no device became free in time: " + Explain(waiting, now).text, now);
  } else if (!keys_.count(waiting.wish.key) && now >= servers_may_arrive_until_) {
    Refuse(it, code::kUnknownKey, UnknownKey(waiting.wish.key), now);
  } else {
    Schedule(it->first);  // the recovery has become longer since
  }
}

// Once a second: pings the servers, numbers the queue, decides who must yield, and forgets what is old. The answers to
// the pings are ignored: if a server has left, sending fails, and OnUnreachable is called.
void TrackerState::Round(int64_t now) {
  constexpr int64_t kInterval = 1000;
  next_round_ = now + kInterval;
  for (const auto& [id, server] : servers_) {
    if (server.reachable) Send(server.peer, "", rpc::Ping{});
  }
  std::map<std::string, int64_t> positions;
  for (auto& [ticket, waiting] : queue_) waiting.position = ++positions[waiting.wish.key];
  std::set<std::string> held;
  for (const auto& [id, server] : servers_)
    if (server.lease) held.insert(server.report.device.key);
  for (const std::string& key : held) MarkYielding(key, now);
  ForgetJobs(now);
  std::erase_if(requests_, [&](const auto& request) {
    const auto* settled = std::get_if<Settled>(&request.second);
    return settled && now - settled->when >= options_.remember_ms;
  });
  if (now - started_ >= options_.forget_ms && !boards_.empty()) {
    boards_.clear();
    ++changes_;
  }
  const auto is_old = [&](const auto& key) { return now - key.second >= options_.forget_ms; };
  if (std::erase_if(keys_, is_old) == 0) return;
  ++changes_;
  for (const auto& [ticket, waiting] : queue_) Schedule(ticket);
}

}  // namespace autotune
