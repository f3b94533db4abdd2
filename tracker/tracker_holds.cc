// What administrators ask of a tracker: holds, by which devices are drained or locked, revocations of leases, and who
// is a member.
#include <algorithm>
#include <set>
#include <string>

#include "support/edit_distance.h"
#include "tracker/tracker_state.h"

namespace autotune {
namespace {

using rpc::FarmEvent;
using rpc::Id;
using rpc::Refusal;
namespace code = rpc::code;

constexpr int64_t kLongestHoldMs = int64_t{366} * 24 * 3600 * 1000;
constexpr size_t kAnswers = 16;  // that are remembered [chosen]

std::string InTicks(const std::string& pattern) { return "`" + pattern + "`"; }

// Lists some of the texts: "a, b, c and 4 more".
std::string ListOf(const std::vector<std::string>& texts) {
  constexpr size_t kMost = 8;
  std::string list;
  for (size_t i = 0; i < std::min(texts.size(), kMost); ++i) list += (i == 0 ? "" : ", ") + texts[i];
  return list + (texts.size() > kMost ? " and " + std::to_string(texts.size() - kMost) + " more" : "");
}

void AddDevice(rpc::DeviceHeld& held, rpc::HeldDevice device) {
  if (held.devices.size() < rpc::kMostNamed) {
    held.devices.push_back(std::move(device));
  } else {
    ++held.omitted;
  }
}

}  // namespace

void TrackerState::OnAdministration(const rpc::From& from, const rpc::Message& message, int64_t now) {
  if (message.request.empty())
    return Send(from.peer, "", Refusal{code::kMalformed, "an administrator's request must have an id"});
  if (const auto answer = std::ranges::find(answers_, message.request, [](const auto& a) { return a.first; });
      answer != answers_.end()) {
    return Send(from.peer, message.request, answer->second);
  }
  if (message.As<rpc::MembersRequest>()) return Send(from.peer, message.request, AboutMembers(message.body));
  rpc::Body answer;
  // An authenticated name counts for more than the one that the message states.
  if (const auto* revoke = message.As<rpc::LeaseRevoke>()) {
    answer = RevokeLease({revoke->lease, from.identity.empty() ? revoke->who : from.name}, now);
  } else if (message.As<rpc::MemberInvite>() || message.As<rpc::MemberRevoke>() || message.As<rpc::KeyRotate>()) {
    answer = AboutMembers(message.body);
  } else {
    rpc::DeviceHold hold = *message.As<rpc::DeviceHold>();
    if (!from.identity.empty()) hold.who = from.name;
    const bool is_pattern = rpc::IsPattern(hold.pattern), ends = hold.how == rpc::hold::kNone;
    answer = !is_pattern ? Refusal{code::kMalformed, rpc::kPatternRule}
             : ends      ? EndHolds(hold, now)
                         : BeginHold(std::move(hold), now);
  }
  answers_.emplace_back(message.request, answer);
  if (answers_.size() > kAnswers) answers_.pop_front();
  Send(from.peer, message.request, std::move(answer));
  Dispatch(now);
}

// --- Holds -----------------------------------------------------------------------------------------------------------

rpc::Body TrackerState::BeginHold(rpc::DeviceHold hold, int64_t now) {
  const bool locks = hold.how == rpc::hold::kLock;
  if (!locks && hold.how != rpc::hold::kDrain)
    return Refusal{code::kMalformed, "this tracker knows the holds drain, lock and none"};
  if (hold.for_ms < 0 || hold.for_ms > kLongestHoldMs)
    return Refusal{code::kMalformed, "a hold lasts 366 days at most; one without an end lasts until it is ended"};
  if (!holds_.contains(hold.pattern)) {
    const std::string unknown = UnknownPattern(hold.pattern);
    if (!unknown.empty()) return Refusal{code::kUnknownDevice, unknown};
    if (holds_.size() >= rpc::kMostHolds)
      return Refusal{code::kTooLarge, "a tracker keeps " + std::to_string(rpc::kMostHolds) + " drains and locks"};
  }
  const Hold& begun = holds_[hold.pattern] = {hold, hold.for_ms > 0 ? now + hold.for_ms : rpc::kNever};
  hold.for_ms > 0 ? hold_ends_.Set(hold.pattern, begun.until) : hold_ends_.Clear(hold.pattern);
  ++changes_;
  options_.save();
  if (options_.on_event) {
    options_.on_event({.kind = locks ? FarmEvent::Kind::kLocked : FarmEvent::Kind::kDrained,
                       .key = hold.pattern,
                       .why = TextOf(begun, now)});
  }
  rpc::DeviceHeld held{{hold.pattern}, {}};
  for (auto& [id, server] : servers_) {
    if (!rpc::NamesDevice(hold.pattern, server.report.device.key, rpc::PublicId(id))) continue;
    const std::string client = server.lease ? leases_.at(*server.lease).client_name : "";
    FindHold(id, server, now);
    AddDevice(held, {rpc::PublicId(id), server.report.device.key, StateOf(server), client});
  }
  return held;
}

rpc::Body TrackerState::EndHolds(const rpc::DeviceHold& wish, int64_t now) {
  rpc::DeviceHeld held;
  std::vector<std::string> others;
  for (const auto& [pattern, hold] : holds_) {
    const bool is_meant = pattern == wish.pattern || rpc::MatchesGlob(wish.pattern, pattern);
    (is_meant ? held.patterns : others).push_back(pattern);
  }
  if (held.patterns.empty()) {
    std::ranges::transform(others, others.begin(), InTicks);
    return Refusal{code::kUnknownDevice, "no drain or lock has the pattern " + InTicks(wish.pattern) +
                                             (others.empty() ? "" : "; there are " + ListOf(others))};
  }
  for (const std::string& pattern : held.patterns) RemoveHold(pattern, "ended by " + rpc::AdminText(wish.who));
  options_.save();
  for (auto& [id, server] : servers_) {
    if (server.hold.empty()) continue;
    FindHold(id, server, now);
    if (!server.hold.empty()) continue;
    const std::string client = server.lease ? leases_.at(*server.lease).client_name : "";
    AddDevice(held, {rpc::PublicId(id), server.report.device.key, StateOf(server), client});
  }
  return held;
}

void TrackerState::OnHoldEnd(int64_t now) {
  const std::string pattern = hold_ends_.First();
  RemoveHold(pattern, "its time is over");
  for (auto& [id, server] : servers_)
    if (server.hold == pattern) FindHold(id, server, now);
  Dispatch(now);
}

void TrackerState::RemoveHold(const std::string& pattern, const std::string& why) {
  if (options_.on_event) options_.on_event({.kind = FarmEvent::Kind::kHoldEnded, .key = pattern, .why = why});
  hold_ends_.Clear(pattern);
  holds_.erase(pattern);
  ++changes_;
}

// A lock is stricter than a drain. Of two like holds, the one that ends later is.
void TrackerState::FindHold(const Id& id, Server& server, int64_t now) {
  const auto rank = [](const Hold& hold) { return std::pair(hold.stated.how == rpc::hold::kLock, hold.until); };
  const Hold* strictest = nullptr;
  for (const auto& [pattern, hold] : holds_) {
    if (!rpc::NamesDevice(pattern, server.report.device.key, rpc::PublicId(id))) continue;
    if (!strictest || rank(hold) > rank(*strictest)) strictest = &hold;
  }
  server.hold = strictest ? strictest->stated.pattern : "";
  if (server.lease && IsLocked(server)) Revoke(Id(*server.lease), TextOf(*strictest, now), now);
}

bool TrackerState::IsLocked(const Server& server) const {
  return server.IsHeld() && holds_.at(server.hold).stated.how == rpc::hold::kLock;
}

std::vector<rpc::DeviceHold> TrackerState::CurrentHolds(int64_t now) const {
  std::vector<rpc::DeviceHold> current;
  for (const auto& [pattern, hold] : holds_) {
    current.push_back(hold.stated);
    // One that ends at this moment is not one without an end.
    if (hold.until != rpc::kNever) current.back().for_ms = std::max<int64_t>(1, hold.until - now);
  }
  return current;
}

std::string TrackerState::TextOf(const Hold& hold, int64_t now) const {
  rpc::DeviceHold left = hold.stated;
  if (hold.until != rpc::kNever) left.for_ms = std::max<int64_t>(1, hold.until - now);
  return rpc::HoldText(left, options_.until_text);
}

// Says for those who wait which devices are held: ", 2 drained by ann@lab until 14:05: new fan".
std::string TrackerState::HeldText(const std::string& key, int64_t now) const {
  constexpr size_t kMost = 3;
  std::map<std::string, int> devices;  // by hold
  for (const auto& [id, server] : servers_) {
    if (server.report.device.key == key && server.reachable && server.IsHeld()) ++devices[server.hold];
  }
  std::string text;
  size_t told = 0;
  for (const auto& [pattern, count] : devices) {
    if (++told > kMost) return text + ", ...";
    text += ", " + std::to_string(count) + " " + TextOf(holds_.at(pattern), now);
  }
  return text;
}

// Returns "" if the pattern names a known device or matches a known key.
std::string TrackerState::UnknownPattern(const std::string& pattern) const {
  std::set<std::string> names;
  for (const auto& [key, seen] : keys_) {
    if (rpc::MatchesGlob(pattern, key)) return "";
    names.insert(key);
  }
  for (const auto& [id, server] : servers_) {
    if (rpc::NamesDevice(pattern, server.report.device.key, rpc::PublicId(id))) return "";
    names.insert(server.report.device.key);
  }
  const std::vector<std::string> known(names.begin(), names.end());
  std::vector<std::string> near = NearWords(pattern, known);
  const bool has_near = !near.empty();
  if (!has_near) near = known;
  std::ranges::transform(near, near.begin(), InTicks);
  const std::string start = "no device matches " + InTicks(pattern);
  if (has_near) return start + "; did you mean " + ListOf(near) + "?";
  return start + (near.empty() ? ", and none has registered yet" : "; there are " + ListOf(near));
}

// --- Revocations -----------------------------------------------------------------------------------------------------

rpc::Body TrackerState::RevokeLease(const rpc::LeaseRevoke& wish, int64_t now) {
  if (wish.lease.empty()) return Refusal{code::kMalformed, "a revocation must name a lease"};
  std::vector<Id> meant;
  for (auto it = leases_.lower_bound(wish.lease); it != leases_.end() && it->first.starts_with(wish.lease); ++it)
    meant.push_back(it->first);
  const std::string name = InTicks(OneLine(wish.lease));
  if (meant.empty())
    return Refusal{code::kUnknownLease, "no lease begins with " + name + "; `rpc_tracker status` shows the leases"};
  if (meant.size() > 1) {
    return Refusal{code::kUnknownLease,
                   std::to_string(meant.size()) + " leases begin with " + name + "; give more digits"};
  }
  const Lease& lease = leases_.at(meant[0]);
  const auto server = servers_.find(lease.server);
  const std::string key = server == servers_.end() ? "" : server->second.report.device.key;
  rpc::LeaseRevoked revoked{rpc::PublicId(lease.id), rpc::PublicId(lease.server), key, lease.client_name};
  Revoke(meant[0], "revoked by " + rpc::AdminText(wish.who), now);
  return revoked;
}

// Ends a lease, and tells its server at once, so that it kills what runs.
void TrackerState::Revoke(const Id& lease, const std::string& why, int64_t now) {
  const auto server = servers_.find(leases_.at(lease).server);
  if (server != servers_.end() && server->second.reachable) {
    rpc::ReportReply reply{epoch_, options_.report_interval_ms, {lease}};
    reply.next_key = next_key_;
    reply.unreachable = Trouble(server->second, now);
    Send(server->second.peer, "", std::move(reply));
  }
  EndLease(lease, why, now);
}

}  // namespace autotune
