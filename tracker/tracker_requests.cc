// Lease requests: how they come in, wait in the queue, leave it, and are answered again if they are repeated.
#include <algorithm>

#include "rpc/rules.h"
#include "tracker/tracker_state.h"

namespace autotune {
namespace {

using rpc::Id;
using rpc::Message;
using rpc::Peer;
using rpc::Refusal;
namespace code = rpc::code;

constexpr size_t kMaxQueue = 100000;

}  // namespace

// Answers a lease request that has come before.
void TrackerState::OnRepeated(const rpc::From& from, const Message& message, const Request& request, int64_t now) {
  const Peer& peer = from.peer;
  if (const auto* granted = std::get_if<Granted>(&request)) {
    const Lease& lease = leases_.at(granted->lease);
    if (!Owns(from, lease.identity)) return Send(peer, message.request, NotYours());
    const auto server = servers_.find(lease.server);
    return server == servers_.end() ? void() : SendGrant(peer, lease, server->second);
  }
  if (const auto* settled = std::get_if<Settled>(&request)) return Send(peer, message.request, settled->answer);
  const int64_t ticket = std::get<Queued>(request).ticket;
  Waiting& waiting = queue_.at(ticket);
  if (!Owns(from, waiting.identity)) return Send(peer, message.request, NotYours());
  waiting.peer = peer;
  if (const std::string why = OutOfReach(waiting.identity, waiting.wish.key); !why.empty()) {
    Refuse(queue_.find(ticket), code::kUnknownKey, why, now);
    return;
  }
  const auto& wish = *message.As<rpc::LeaseRequest>();
  waiting.heard = now;
  waiting.wish.exclude = wish.exclude;
  waiting.wish.unfit = wish.unfit;
  Schedule(ticket);
  Send(peer, message.request, Explain(waiting, now));
}

void TrackerState::OnLeaseRequest(const rpc::From& from, const Message& message, int64_t now) {
  const Peer& peer = from.peer;
  const rpc::LeaseRequest& wish = *message.As<rpc::LeaseRequest>();
  if (message.request.empty())
    return Send(peer, message.request, Refusal{code::kMalformed, "a lease request must have an id"});
  if (!rpc::IsKey(wish.key)) return Send(peer, message.request, Refusal{code::kMalformed, rpc::kKeyRule});
  if (const auto known = requests_.find(message.request); known != requests_.end())
    return OnRepeated(from, message, known->second, now);
  if (auto failed = failed_keys_.find(wish.key); failed != failed_keys_.end())
    return Send(peer, message.request, Refusal{code::kKeyFailed, failed->second});
  // If nobody waits for such a device, a free one is granted without the queue, which takes longer.
  const bool may_have_it = !waiting_.contains(wish.key) && !Recovering(now);
  if (Server* server = may_have_it ? FreeServer(wish, from.identity, now) : nullptr) {
    Lease lease = Grant(peer, message.request, from.identity, *server, now);
    return Book(std::move(lease), AsMember(from, wish), 0, *server, now);
  }
  if (!keys_.count(wish.key) && now >= servers_may_arrive_until_) {
    return Send(peer, message.request, Refusal{code::kUnknownKey, UnknownKey(wish.key)});
  }
  if (const std::string why = OutOfReach(from.identity, wish.key); !why.empty())
    return Send(peer, message.request, Refusal{code::kUnknownKey, why});
  if (queue_.size() >= kMaxQueue) return Send(peer, message.request, Refusal{code::kTooLarge, "too many clients wait"});
  const int64_t wait = std::clamp<int64_t>(wish.wait_ms, 0, kLongestMs);
  Waiting waiting{message.request, peer, from.identity, AsMember(from, wish), now, now, now + wait};
  std::set<int64_t>& others = waiting_[wish.key];
  others.insert(++last_ticket_);
  waiting.position = static_cast<int64_t>(others.size());
  requests_[message.request] = Queued{last_ticket_};
  queue_[last_ticket_] = std::move(waiting);
  Schedule(last_ticket_);
  Dispatch(now);
  if (auto still = queue_.find(last_ticket_); still != queue_.end())
    Send(peer, message.request, Explain(still->second, now));
}

void TrackerState::Settle(const Id& request, Refusal answer, int64_t now) {
  requests_[request] = Settled{now, std::move(answer)};
}

// Takes a request out of the queue. The caller notes what becomes of it.
TrackerState::Queue::iterator TrackerState::Leave(Queue::iterator it) {
  auto waiting = waiting_.find(it->second.wish.key);
  waiting->second.erase(it->first);
  if (waiting->second.empty()) waiting_.erase(waiting);
  due_.Clear(it->first);
  return queue_.erase(it);
}

// Ends a wait with a refusal. Keeps the answer and repeats it if the client asks again: if the answer got lost, the
// client would otherwise start a new wait.
TrackerState::Queue::iterator TrackerState::Refuse(Queue::iterator it, std::string code, std::string text,
                                                   int64_t now) {
  Refusal refusal{std::move(code), std::move(text)};
  Send(it->second.peer, it->second.request, refusal);
  Settle(it->second.request, std::move(refusal), now);
  return Leave(it);
}

}  // namespace autotune
