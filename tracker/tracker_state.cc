#include "tracker/tracker_state.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "rpc/address.h"
#include "rpc/capability.h"
#include "rpc/rules.h"

namespace autotune {
namespace {

using rpc::FarmEvent;
using rpc::Id;
using rpc::Message;
using rpc::Peer;
using rpc::Refusal;
using rpc::Rule;
namespace code = rpc::code;

constexpr size_t kMaxServers = 20000, kMaxErrors = 20;

}  // namespace

TrackerState::TrackerState(Options options, int64_t now)
    : options_(std::move(options)),
      started_(now),
      servers_may_arrive_until_(now + (options_.recovering ? 0 : options_.grace_ms)),
      recovering_until_(options_.recovering ? std::optional(now + options_.ttl_ms) : std::nullopt),
      epoch_(options_.epoch),
      next_lease_(options_.new_id()),
      next_round_(now) {
  for (const auto& [key, age] : options_.keys) keys_[key] = now - age;
  for (const KnownBoard& board : options_.boards) boards_[board.server] = board;
  for (const rpc::DeviceHold& hold : options_.holds) {
    holds_[hold.pattern] = {hold, hold.for_ms > 0 ? now + hold.for_ms : rpc::kNever};
    if (hold.for_ms > 0) hold_ends_.Set(hold.pattern, now + hold.for_ms);
  }
}

std::map<std::string, int64_t> TrackerState::KeyAges(int64_t now) const {
  std::map<std::string, int64_t> ages;
  for (const auto& [key, seen] : keys_) ages[key] = now - seen;
  return ages;
}

void TrackerState::Happened(FarmEvent::Kind kind, const Id& id, const Server& server, std::string why,
                            const Lease* lease, int64_t now, std::string help) {
  FarmEvent event{.kind = kind,
                  .server = id,
                  .key = server.report.device.key,
                  .endpoint = server.report.device.endpoint,
                  .why = std::move(why),
                  .help = std::move(help)};
  if (lease) {
    event.holder = {lease->client_name, lease->tenant, lease->job, now - lease->granted};
    event.lease = lease->id;
    event.client = lease->client;
    event.request = lease->request;
    event.token = lease->token;
  }
  if (kind == FarmEvent::Kind::kUnreachable || kind == FarmEvent::Kind::kLost) {
    errors_.push_back({now, Text(event)});
    if (errors_.size() > kMaxErrors) errors_.pop_front();
  }
  if (options_.on_event) options_.on_event(std::move(event));
}

// --- Servers ---------------------------------------------------------------------------------------------------------

void TrackerState::OnReport(const rpc::From& from, const Message& message, int64_t now) {
  const Peer& peer = from.peer;
  rpc::ServerReport report = *message.As<rpc::ServerReport>();
  if (!from.identity.empty()) report.device.public_key = from.identity;  // it listens with the key that it has shown
  const std::string& key = report.device.key;
  if (report.server.empty())
    return Send(peer, message.request, Refusal{code::kMalformed, "a report must name its server"});
  if (!rpc::IsKey(key)) return Send(peer, message.request, Refusal{code::kMalformed, rpc::kKeyRule});
  if (!rpc::IsPlausible(report.highest, epoch_)) {
    return Send(peer, message.request, Refusal{code::kMalformed, "no tracker has given out such a token"});
  }
  if (!from.identity.empty() && !std::ranges::all_of(report.device.AllEndpoints(), rpc::IsTcp)) {
    // A path would be one of the tracker's host, and of each client's.
    return Send(peer, message.request, Refusal{code::kMalformed, "a server that joins over TCP listens at HOST:PORT"});
  }
  auto it = servers_.find(report.server);
  if (it != servers_.end() && !IsLeftBehind(it->second) && !Owns(from, it->second.identity))
    return Send(peer, message.request, Refusal{code::kForbidden, "another member has a server of this id"});
  if (keys_.size() >= kMaxServers && !keys_.count(key)) {
    return Send(peer, message.request, Refusal{code::kTooLarge, "too many keys are known"});
  }
  // A connection is one server. Otherwise one peer could make up as many as the tracker knows.
  if (auto of_peer = peers_.find(peer); of_peer != peers_.end() && of_peer->second != report.server)
    RemoveServer(Id(of_peer->second), now);
  if (it == servers_.end()) {
    if (servers_.size() >= kMaxServers) {
      return Send(peer, message.request, Refusal{code::kTooLarge, "too many servers are known"});
    }
    it = servers_.emplace(report.server, Server{}).first;
  } else if (it->second.report.incarnation != report.incarnation && it->second.lease) {
    EndLease(*it->second.lease, "the server was restarted", now);
  }
  Server& server = it->second;
  const bool is_new = !server.reachable || server.report.incarnation != report.incarnation;
  const bool moved = server.report.device.AllEndpoints() != report.device.AllEndpoints() ||
                     server.report.device.public_key != report.device.public_key;
  const bool has_new_key = server.report.device.key != key, worked = server.report.trials != report.trials;
  if (is_new || server.report.device != report.device) server.device = rpc::Encoded(report.device);
  server.report = report;
  peers_.erase(server.peer);
  peers_[peer] = report.server;
  server.peer = peer;
  server.identity = from.identity;
  server.address = from.address;
  server.last_seen = now;
  server.reachable = true;
  if (is_new) RegisterBoard(server);
  if (is_new) Happened(FarmEvent::Kind::kRegistered, report.server, server);
  if (has_new_key) FindHold(report.server, server, now);
  if (is_new || moved) {
    server.dial_error.clear();
    server.client_error.clear();
    SetDialed(report.server, server, Server::Dialed::kDue, now);
  }
  silences_.Set(report.server,
                now + (server.identity.empty() ? options_.server_silence_ms : options_.member_silence_ms));
  const bool new_key = keys_.insert_or_assign(key, now).second;
  if (auto waiting = waiting_.find(key); new_key && waiting != waiting_.end()) {
    for (int64_t ticket : waiting->second) Schedule(ticket);
  }
  changes_ += new_key;
  failed_keys_.erase(key);
  // If a server knows a later token than this tracker, the file with the epoch was lost. New tokens must be later than
  // the server's. In the first ttl_ms after its start, this tracker grants nothing, since servers may still report
  // leases of the earlier tracker. After that, only the tokens of this server become later (Grant): by tokens that it
  // has made up, a server could otherwise let the epoch run away from the one that other servers take for plausible.
  const int64_t until = std::max(recovering_until_.value_or(0), started_ + options_.ttl_ms);
  const rpc::Token& highest = report.highest;
  if (now < until && highest > rpc::Token{epoch_, counter_}) {
    epoch_ = highest.epoch + 1;
    ++changes_;
    recovering_until_ = until;
  }
  rpc::ReportReply reply{epoch_, options_.report_interval_ms, {}};
  CompareLeases(server, worked, reply, now);
  reply.unreachable = Trouble(server, now);
  reply.next_key = next_key_;
  Send(peer, message.request, std::move(reply));
  Dispatch(now);
}

// Compares the leases that a server reports with those of this tracker. `worked`: it has measured since its last
// report.
void TrackerState::CompareLeases(Server& server, bool worked, rpc::ReportReply& reply, int64_t now) {
  for (const rpc::HeldLease& held : server.report.leases) {
    if (auto known = leases_.find(held.lease); known != leases_.end() && known->second.server == server.report.server) {
      Lease& lease = known->second;
      lease.deadline = held.deadline_ms > 0 ? now + std::min(held.deadline_ms, kLongestMs) : 0;
      if (held.deadline_ms > 0 || worked) lease.worked = now;
      if (lease.client == server.client) server.client_error.clear();
      if (!lease.must_yield_since) continue;
      reply.yield.push_back(held.lease);
      ScheduleRevocation(lease);
      continue;
    }
    const std::optional<std::string> holder =
        held.client_key.empty() ? std::optional(held.tenant) : options_.name_of(held.client_key);
    if (Recovering(now) && !server.lease && !leases_.count(held.lease) && !IsLocked(server) && holder) {
      leases_[held.lease] = Lease{held.lease,
                                  "",
                                  held.token,
                                  server.report.server,
                                  held.client,
                                  held.client_key.empty() ? held.client_name : ClientNameOf(*holder, held.client_name),
                                  *holder,
                                  held.job,
                                  now - std::clamp<int64_t>(held.held_ms, 0, kLongestMs)};
      leases_[held.lease].worked = now;
      leases_[held.lease].identity = held.client_key;
      expiries_.Set(held.lease, now + options_.ttl_ms);
      server.lease = held.lease;
      Happened(FarmEvent::Kind::kLeased, server.report.server, server, "", &leases_[held.lease], now);
    } else {
      reply.revoked.push_back(held.lease);
    }
  }
}

void TrackerState::RemoveServer(const Id& id, int64_t now) {
  auto it = servers_.find(id);
  if (it == servers_.end()) return;
  if (it->second.lease) EndLease(Id(*it->second.lease), "the server ended", now);
  Happened(FarmEvent::Kind::kLeft, id, it->second);
  changes_ += !it->second.identity.empty();
  silences_.Clear(id);
  SetDialed(id, it->second, Server::Dialed::kNo, now);
  peers_.erase(it->second.peer);
  servers_.erase(it);
}

void TrackerState::SetUnreachable(const Id& id, Server& server, std::string why, int64_t now) {
  if (!std::exchange(server.reachable, false)) return;
  SetDialed(id, server, Server::Dialed::kNo, now);
  Happened(FarmEvent::Kind::kUnreachable, id, server, std::move(why), nullptr, now);
}

TrackerState::Dials TrackerState::OnUnreachable(const Peer& peer, int64_t now) {
  Advance(now);
  // The server's lease stays until the server has been silent for long: it may still live and connect again.
  if (auto it = peers_.find(peer); it != peers_.end())
    SetUnreachable(it->second, servers_.at(it->second), "it disconnected", now);
  return Take();
}

// --- Leases ----------------------------------------------------------------------------------------------------------

void TrackerState::EndLease(const Id& id, const std::string& why, int64_t now) {
  auto it = leases_.find(id);
  if (it == leases_.end()) return;
  Lease lease = std::move(it->second);
  leases_.erase(it);
  expiries_.Clear(lease.id);
  revocations_.Clear(lease.id);
  if (!lease.request.empty()) Settle(lease.request, {code::kLeaseLost, "the lease of this request has ended"}, now);
  auto server = servers_.find(lease.server);
  if (server == servers_.end()) return;
  if (server->second.lease == lease.id) server->second.lease.reset();
  Happened(why.empty() ? FarmEvent::Kind::kReturned : FarmEvent::Kind::kLost, lease.server, server->second, why, &lease,
           now);
}

void TrackerState::SendGrant(const Peer& peer, const Lease& lease, const Server& server) {
  const rpc::ServerReport& report = server.report;
  const rpc::Capability granted{lease.id, lease.token, report.incarnation, options_.ttl_ms, lease.identity};
  Send(peer, lease.request,
       rpc::LeaseGranted{lease.id, lease.token, lease.server, server.device, options_.ttl_ms, report.incarnation,
                         ProofOf(granted, report.grant_key)});
}

TrackerState::Lease TrackerState::Grant(const Peer& peer, const Id& request, const std::string& identity,
                                        const Server& server, int64_t now) {
  Lease lease{.id = std::move(next_lease_), .request = request, .token = {epoch_, ++counter_}};
  const rpc::Token& highest = server.report.highest;
  if (lease.token <= highest) lease.token.epoch = highest.epoch + 1;
  lease.server = server.report.server;
  lease.granted = lease.worked = now;
  lease.identity = identity;
  SendGrant(peer, lease, server);
  next_lease_ = options_.new_id();
  return lease;
}

void TrackerState::Book(Lease lease, const rpc::LeaseRequest& wish, int64_t waited, Server& server, int64_t now) {
  lease.client = wish.client;
  lease.client_name = wish.client_name;
  lease.tenant = wish.tenant;
  lease.job = wish.job;
  expiries_.Set(lease.id, now + options_.ttl_ms);
  ++grants_;
  lease_waits_.Add(waited);
  server.lease = lease.id;
  Happened(FarmEvent::Kind::kLeased, lease.server, server, "", &lease, now);
  requests_[lease.request] = Granted{lease.id};
  leases_[lease.id] = std::move(lease);
}

bool TrackerState::IsUnfit(const rpc::LeaseRequest& wish, const Id& server) {
  return std::ranges::find(wish.unfit, server) != wish.unfit.end();
}

TrackerState::Server* TrackerState::FreeServer(const rpc::LeaseRequest& wish, const std::string& identity,
                                               int64_t since) {
  Server* excluded_one = nullptr;
  bool other_exists = false;
  for (auto& [id, server] : servers_) {
    if (server.report.device.key != wish.key || !server.reachable || server.IsHeld()) continue;
    if (!CanReach(identity, server) || IsUnfit(wish, id)) continue;
    bool excluded = std::find(wish.exclude.begin(), wish.exclude.end(), id) != wish.exclude.end();
    other_exists |= !excluded && (server.lease || server.CanServe());
    if ((server.lease && Holds(Rule::kOneHolder)) || !server.CanServe()) continue;
    if (!excluded) return &server;
    // This server has failed the client, so it may be dead. It qualifies only if it has reported since the request.
    if (server.last_seen > since) excluded_one = &server;
  }
  // Use a server that has failed this client only if no other server has the key.
  return other_exists ? nullptr : excluded_one;
}

// Counts the waiting requests of each client, in the order of the queue. Stops once every client has at least `holders`
// counted requests of other clients. Each holder then has a request to yield to, so further requests would not change
// the outcome.
std::map<Id, int64_t> TrackerState::RequestsByClient(const std::set<int64_t>& tickets, int64_t holders) const {
  std::map<Id, int64_t> requests;
  int64_t total = 0, most = 0;  // `most`: largest number of requests of one client
  for (auto ticket = tickets.begin(); ticket != tickets.end() && total - most < holders; ++ticket, ++total) {
    most = std::max(most, ++requests[queue_.at(*ticket).wish.client]);
  }
  return requests;
}

// Decides which holders of devices of this key must yield, and notes since when. As many holders yield as requests
// wait, in the order of their grants, and each only after its quantum. A holder yields only to other clients: otherwise
// it would trade devices with itself. If nobody waits any more, it may go on. A holder of a drained device yields
// beside those, since nobody gets its device, and also if it has had nothing to run for a quantum.
void TrackerState::MarkYielding(const std::string& key, int64_t now) {
  // A thousand holders renew every 3 s, so the usual case must not look at all of them.
  const bool nobody_yields = revocations_.Earliest() == rpc::kNever;
  if (nobody_yields && !waiting_.contains(key) && holds_.empty()) return;
  std::vector<Lease*> holders;
  for (auto& [id, lease] : leases_) {
    auto server = servers_.find(lease.server);
    if (server != servers_.end() && server->second.report.device.key == key) holders.push_back(&lease);
  }
  std::sort(holders.begin(), holders.end(),
            [](auto* a, auto* b) { return std::tie(a->granted, a->token) < std::tie(b->granted, b->token); });
  std::map<Id, int64_t> wanted;
  std::map<Id, const rpc::LeaseRequest*> wishes;  // one of each client; its requests name the same unfit servers
  if (auto waiting = waiting_.find(key); waiting != waiting_.end()) {
    wanted = RequestsByClient(waiting->second, static_cast<int64_t>(holders.size()));
    for (int64_t ticket : waiting->second)
      if (const rpc::LeaseRequest& wish = queue_.at(ticket).wish; !wish.unfit.empty()) wishes[wish.client] = &wish;
  }
  for (Lease* holder : holders) {
    const auto wants_it = [&](const auto& client) {
      const auto wish = wishes.find(client.first);
      return client.first != holder->client && (wish == wishes.end() || !IsUnfit(*wish->second, holder->server));
    };
    auto other = now - holder->granted < options_.quantum_ms ? wanted.end() : std::ranges::find_if(wanted, wants_it);
    const bool drained = servers_.at(holder->server).IsHeld();
    if (other == wanted.end() && !(drained && now - holder->worked >= options_.quantum_ms)) {
      holder->must_yield_since.reset();
      revocations_.Clear(holder->id);
      continue;
    }
    if (!drained && --other->second == 0) wanted.erase(other);
    if (std::exchange(holder->must_yield_since, holder->must_yield_since.value_or(now))) continue;
    ScheduleRevocation(*holder);
  }
}

void TrackerState::ScheduleRevocation(const Lease& lease) {
  constexpr int64_t kAfterDeadline = 1000;  // for the result of a candidate that ends at its deadline
  revocations_.Set(lease.id, std::max(*lease.must_yield_since + options_.yield_ms, lease.deadline + kAfterDeadline));
}

void TrackerState::Dispatch(int64_t now) {
  if (queue_.empty() || Recovering(now)) return;
  std::map<std::string, int> free;
  for (const auto& [id, server] : servers_) {
    const bool is_free = !server.lease || !Holds(Rule::kOneHolder);
    if (is_free && server.CanServe()) ++free[server.report.device.key];
  }
  for (auto& [key, count] : free) {
    auto waiting = waiting_.find(key);
    if (waiting == waiting_.end()) continue;
    std::vector<int64_t> tickets(waiting->second.begin(), waiting->second.end());
    if (!Holds(Rule::kQueueOrder)) std::ranges::reverse(tickets);
    for (auto ticket = tickets.begin(); ticket != tickets.end() && count > 0; ++ticket) {
      auto it = queue_.find(*ticket);
      const Waiting& first = it->second;
      Server* server = FreeServer(first.wish, first.identity, first.since);
      if (!server) continue;
      Book(Grant(first.peer, first.request, first.identity, *server, now), first.wish, now - first.since, *server, now);
      Leave(it);
      --count;
    }
  }
}

void TrackerState::OnRenew(const rpc::From& from, const Id& request, const rpc::LeaseRenew& renew, int64_t now) {
  auto it = leases_.find(renew.lease);
  if (it != leases_.end()) {
    if (!Owns(from, it->second.identity)) return Send(from.peer, request, NotYours());
    expiries_.Set(it->first, now + options_.ttl_ms);
    if (auto server = servers_.find(it->second.server); server != servers_.end())
      MarkYielding(server->second.report.device.key, now);
    Send(from.peer, request, rpc::LeaseRenewed{options_.ttl_ms, it->second.must_yield_since.has_value(), next_key_});
  } else if (Recovering(now)) {
    // The tracker was restarted, and the lease's server has not reported yet. So the lease may exist.
    Send(from.peer, request, rpc::LeaseRenewed{options_.ttl_ms, false, next_key_});
  } else {
    Send(from.peer, request, Refusal{code::kLeaseLost, "no such lease: it expired, or its device is gone"});
  }
}

TrackerState::Dials TrackerState::On(const rpc::From& from, const Message& message, int64_t now) {
  Advance(now);
  const Peer& peer = from.peer;
  if (const std::optional<Refusal> refusal = rpc::RefusalOf(from, message)) {
    Send(peer, message.request, *refusal);
  } else if (message.As<rpc::ServerReport>()) {
    OnReport(from, message, now);
  } else if (auto* goodbye = message.As<rpc::ServerGoodbye>()) {
    OnGoodbye(from, *goodbye, now);
  } else if (message.As<rpc::LeaseRequest>()) {
    OnLeaseRequest(from, message, now);
  } else if (auto* renew = message.As<rpc::LeaseRenew>()) {
    OnRenew(from, message.request, *renew, now);
  } else if (auto* release = message.As<rpc::LeaseRelease>()) {
    OnRelease(from, message.request, *release, now);
  } else if (auto* withdraw = message.As<rpc::LeaseWithdraw>()) {
    OnWithdraw(from, message.request, *withdraw, now);
  } else if (message.As<rpc::JobReport>()) {
    OnJobReport(from, message, now);
  } else if (rpc::SendersOf(message.body).IsOnly(rpc::Role::kAdmin)) {
    OnAdministration(from, message, now);
  } else if (auto* status = message.As<rpc::StatusRequest>()) {
    Send(peer, message.request, Status(status->key, now));
  } else if (auto* ping = message.As<rpc::Ping>()) {
    Send(peer, message.request, rpc::Pong{ping->payload});
  } else if (!message.As<Refusal>() && !message.As<rpc::Pong>()) {
    Send(peer, message.request,
         Refusal{code::kUnexpected, "a tracker does not take a " + std::string(KindOf(message.body))});
  }
  return Take();
}

TrackerState::Dials TrackerState::FailKey(const std::string& key, const std::string& why, int64_t now) {
  failed_keys_[key] = why;
  for (auto it = queue_.begin(); it != queue_.end();) {
    it = it->second.wish.key == key ? Refuse(it, code::kKeyFailed, why, now) : std::next(it);
  }
  return Take();
}

}  // namespace autotune
