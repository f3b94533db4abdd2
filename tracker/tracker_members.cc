// What belongs to which member of a farm, and what ends with a membership.
#include <algorithm>
#include <iterator>
#include <optional>

#include "rpc/administration.h"
#include "rpc/rules.h"
#include "tracker/tracker_state.h"

namespace autotune {

using rpc::Id;
using rpc::Refusal;
namespace code = rpc::code;

Refusal TrackerState::NotYours() { return {code::kForbidden, "this lease or request is another member's"}; }

bool TrackerState::Owns(const rpc::From& from, const std::string& owner) {
  return from.identity.empty() || from.identity == owner || !Holds(rpc::Rule::kOwners);
}

std::string TrackerState::ClientNameOf(const std::string& member, const std::string& stated) {
  return stated.empty() ? member : member + " (" + stated + ")";
}

rpc::LeaseRequest TrackerState::AsMember(const rpc::From& from, rpc::LeaseRequest wish) {
  if (from.identity.empty()) return wish;
  wish.tenant = from.name;
  wish.client_name = ClientNameOf(from.name, wish.client_name);
  return wish;
}

std::string TrackerState::OutOfReach(const std::string& client, const std::string& key) const {
  bool exists = false;
  for (const auto& [id, server] : servers_) {
    if (server.report.device.key != key) continue;
    if (CanReach(client, server)) return "";
    exists = true;
  }
  if (!exists) return "";
  const std::string devices = "the devices `" + key + "` are reached ";
  return devices + (client.empty() ? "over TCP, with a join file only; rpc_tracker invite NAME --role client makes one"
                                   : "by processes on the tracker's host only");
}

rpc::Body TrackerState::AboutMembers(const rpc::Body& question) const {
  if (options_.about_members) return options_.about_members(question);
  return Refusal{code::kUnexpected, "this tracker has no members"};
}

void TrackerState::OnRelease(const rpc::From& from, const Id& request, const rpc::LeaseRelease& release, int64_t now) {
  if (const auto it = leases_.find(release.lease); it != leases_.end()) {
    if (!Owns(from, it->second.identity)) return Send(from.peer, request, NotYours());
    if (!release.unreachable.empty()) OnUnreached(it->second, release.unreachable, now);
    EndLease(release.lease, release.unreachable.empty() ? "" : "its client could not reach the server", now);
  }
  Send(from.peer, request, rpc::LeaseReleased{release.lease});
  Dispatch(now);
}

void TrackerState::OnWithdraw(const rpc::From& from, const Id& request, const rpc::LeaseWithdraw& withdraw,
                              int64_t now) {
  if (const auto it = requests_.find(withdraw.withdrawn); it != requests_.end()) {
    if (const auto* queued = std::get_if<Queued>(&it->second)) {
      const auto waiting = queue_.find(queued->ticket);
      if (!Owns(from, waiting->second.identity)) return Send(from.peer, request, NotYours());
      Leave(waiting);
    } else if (const auto* granted = std::get_if<Granted>(&it->second)) {
      if (!Owns(from, leases_.at(granted->lease).identity)) return Send(from.peer, request, NotYours());
      EndLease(Id(granted->lease), "", now);
    }
  }
  Settle(withdraw.withdrawn, {code::kLeaseLost, "this request was withdrawn"}, now);
  Send(from.peer, request, rpc::LeaseReleased{});
  Dispatch(now);
}

void TrackerState::OnGoodbye(const rpc::From& from, const rpc::ServerGoodbye& goodbye, int64_t now) {
  const auto it = servers_.find(goodbye.server);
  if (it == servers_.end() || it->second.report.incarnation != goodbye.incarnation) return;
  if (Owns(from, it->second.identity)) RemoveServer(goodbye.server, now);
}

// --- Boards ----------------------------------------------------------------------------------------------------------

void TrackerState::RegisterBoard(const Server& server) {
  if (server.identity.empty()) return;
  const auto known = boards_.find(rpc::PublicId(server.report.server));
  if (known != boards_.end() && known->second.member_key == server.identity) boards_.erase(known);
  ++changes_;
}

std::vector<KnownBoard> TrackerState::Boards() const {
  std::vector<KnownBoard> boards;
  for (const auto& [server, board] : boards_) boards.push_back(board);
  for (const auto& [id, server] : servers_) {
    if (!server.identity.empty())
      boards.push_back({rpc::PublicId(id), server.report.device.key, server.address, server.identity});
  }
  return boards;
}

std::vector<ServerSilence> TrackerState::Silences(int64_t now) const {
  std::vector<ServerSilence> silences;
  for (const auto& [id, server] : servers_) {
    if (server.identity.empty()) continue;  // on this host
    silences.push_back({.server = rpc::PublicId(id),
                        .key = server.report.device.key,
                        .member = options_.name_of(server.identity).value_or(""),
                        .address = server.address,
                        .silent_ms = now - server.last_seen,
                        .reports = server.reachable,
                        .held = server.IsHeld()});
  }
  for (const auto& [id, board] : boards_) {
    const std::optional<std::string> member = options_.name_of(board.member_key);
    if (!member) continue;  // revoked while no tracker ran
    const auto names_it = [&](const auto& hold) { return rpc::NamesDevice(hold.first, board.key, id); };
    silences.push_back({.server = id,
                        .key = board.key,
                        .member = *member,
                        .address = board.address,
                        .silent_ms = now - started_,
                        .held = std::ranges::any_of(holds_, names_it)});
  }
  return silences;
}

// ---------------------------------------------------------------------------------------------------------------------

TrackerState::Dials TrackerState::RevokeMember(const std::string& identity, int64_t now) {
  Advance(now);
  std::vector<Id> leases, servers;
  for (const auto& [id, lease] : leases_)
    if (lease.identity == identity) leases.push_back(id);
  for (const auto& [id, server] : servers_)
    if (server.identity == identity) servers.push_back(id);
  for (auto it = queue_.begin(); it != queue_.end();) {
    const bool ends = it->second.identity == identity;
    it = ends ? Refuse(it, code::kForbidden, "this member was revoked", now) : std::next(it);
  }
  changes_ +=
      static_cast<int64_t>(std::erase_if(boards_, [&](const auto& b) { return b.second.member_key == identity; }));
  for (const Id& id : leases) Revoke(id, "its holder was revoked", now);
  for (const Id& id : servers) RemoveServer(id, now);
  Dispatch(now);
  return Take();
}

}  // namespace autotune
