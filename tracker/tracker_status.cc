// What a tracker tells about its devices and queues: the answers of `status`, and the causes of waits and refusals.
#include <algorithm>
#include <set>

#include "rpc/rules.h"
#include "support/clock_text.h"
#include "support/edit_distance.h"
#include "tracker/status_of_key.h"
#include "tracker/tracker_state.h"

namespace autotune {

std::string TrackerState::UnknownKey(const std::string& key) const {
  std::map<std::string, int> free;
  for (const auto& [id, server] : servers_) {
    if (server.reachable) free[server.report.device.key] += !server.lease && server.CanServe();
  }
  std::string near, all;
  for (const auto& [known, count] : free) {
    std::string item = "`" + known + "` (" + std::to_string(count) + " free)";
    if (IsNear(known, key)) near += (near.empty() ? "" : ", ") + item;
    all += (all.empty() ? "" : ", ") + item;
  }
  if (!near.empty()) return "no device has the key `" + key + "`; did you mean " + near + "?";
  if (!all.empty()) return "no device has the key `" + key + "`; there are " + all;
  return "no device has the key `" + key +
         "`, and no other device is connected; start one: rpc_server --tracker HOST:PORT --key " + key;
}

std::vector<rpc::LeaseHolder> TrackerState::Holders(const std::string& key, int64_t now) const {
  std::vector<rpc::LeaseHolder> holders;
  for (const auto& [id, server] : servers_) {
    if (server.report.device.key != key || !server.lease) continue;
    const Lease& lease = leases_.at(*server.lease);
    holders.push_back({lease.client_name, lease.tenant, lease.job, now - lease.granted});
  }
  std::stable_sort(holders.begin(), holders.end(), [](auto& a, auto& b) { return a.held_ms > b.held_ms; });
  if (holders.size() > rpc::kMaxHolders) holders.resize(rpc::kMaxHolders);
  return holders;
}

rpc::LeaseQueued TrackerState::Explain(const Waiting& waiting, int64_t now) const {
  const std::string place = "; place " + std::to_string(waiting.position) + " in the queue";
  return {waiting.position, WhyWaits(waiting, place, now), Holders(waiting.wish.key, now)};
}

// `place` follows what concerns all devices of the key.
std::string TrackerState::WhyWaits(const Waiting& waiting, const std::string& place, int64_t now) const {
  const std::string& key = waiting.wish.key;
  int reachable = 0, busy = 0, quarantined = 0, unanswered = 0, unfit = 0;
  std::string trouble;
  for (const auto& [id, server] : servers_) {
    if (server.report.device.key != key || !server.reachable) continue;
    ++reachable;
    busy += server.lease.has_value();
    quarantined += !server.report.quarantine.empty();
    unfit += IsUnfit(waiting.wish, id);
    unanswered += !server.dial_error.empty();
    if (!server.dial_error.empty()) trouble = server.dial_error;
  }
  if (Recovering(now)) {
    return "the tracker is recovering; devices are granted in " +
           std::to_string((*recovering_until_ - now + 999) / 1000) + " s";
  }
  if (reachable > 0) {
    return std::to_string(busy) + " of " + std::to_string(reachable) + " devices `" + key + "` busy" +
           (unfit > 0 ? ", " + std::to_string(unfit) + " unfit for this run" : "") +
           (quarantined > 0 ? ", " + std::to_string(quarantined) + " quarantined" : "") +
           (unanswered > 0 ? ", " + std::to_string(unanswered) + " unreachable" : "") + HeldText(key, now) + place +
           (unanswered == reachable ? "; " + trouble : "");
  }
  if (auto seen = keys_.find(key); seen != keys_.end())
    return "no device `" + key + "` is connected; last seen " + LastingText(now - seen->second) + " ago";
  return "no device `" + key + "` has connected yet";
}

FarmSnapshot TrackerState::Snapshot(int64_t now) const {
  constexpr size_t kMostKeys = 100;  // with reasons, each of which takes a look at all servers
  FarmSnapshot snapshot{.status = WholeStatus(now), .lease_waits = lease_waits_, .jobs = Jobs(now)};
  snapshot.status.errors.clear();
  for (const auto& [when, text] : errors_) snapshot.faults.emplace_back(now - when, text);
  for (const auto& [key, tickets] : waiting_) {
    if (snapshot.waits.size() >= kMostKeys) break;
    snapshot.waits[key] = WhyWaits(queue_.at(*tickets.begin()), "", now);
  }
  return snapshot;
}

const char* TrackerState::StateOf(const Server& server) const {
  if (!server.reachable) return rpc::device_state::kUnreachable;
  if (!server.report.quarantine.empty()) return rpc::device_state::kQuarantined;
  if (server.lease) return rpc::device_state::kBusy;
  if (IsLocked(server)) return rpc::device_state::kLocked;
  if (server.IsHeld()) return rpc::device_state::kDrained;
  if (!server.dial_error.empty()) return rpc::device_state::kUnreachable;
  return server.CanServe() ? rpc::device_state::kFree : rpc::device_state::kStarting;
}

// Says why nobody gets a device: its fault, and whoever holds it.
std::string TrackerState::WhyOf(const Server& server, int64_t now) const {
  std::string why;
  const std::string_view state = StateOf(server);
  if (state == rpc::device_state::kQuarantined) why = server.report.quarantine;
  if (server.reachable && why.empty()) why = Trouble(server, now);
  if (!server.IsHeld()) return why;
  return (why.empty() ? "" : why + "; ") + TextOf(holds_.at(server.hold), now);
}

rpc::StatusReply TrackerState::Status(const std::string& key, int64_t now) const {
  return StatusOfKey(WholeStatus(now), key);
}

rpc::StatusReply TrackerState::WholeStatus(int64_t now) const {
  rpc::StatusReply reply;
  reply.epoch = epoch_;
  reply.next_key = next_key_;
  reply.recovering = Recovering(now);
  reply.uptime_ms = now - started_;
  reply.grants = grants_;
  reply.expired = expired_;
  reply.malformed = malformed_;
  for (const auto& [when, text] : errors_) reply.errors.push_back(LastingText(now - when) + " ago: " + text);
  reply.holds = CurrentHolds(now);
  std::set<std::string> offered;
  for (const auto& [id, server] : servers_) {
    const rpc::DeviceInfo& device = server.report.device;
    if (server.reachable) offered.insert(device.key);
    rpc::DeviceStatus status;
    status.server = rpc::PublicId(id);
    status.key = device.key;
    status.endpoint = device.endpoint;
    status.model = device.model;
    status.cores = device.cores;
    status.state = StateOf(server);
    status.why = WhyOf(server, now);
    status.last_seen_ms = now - server.last_seen;
    status.trials = server.report.trials;
    status.last_error = server.report.last_error;
    if (server.lease) {
      const Lease& lease = leases_.at(*server.lease);
      // To tell leases apart. Who knows the whole id can end the lease.
      status.lease = Holds(rpc::Rule::kSecretIds) ? lease.id.substr(0, 8) : lease.id;
      status.client_name = lease.client_name;
      status.tenant = lease.tenant;
      status.job = lease.job;
      status.since_ms = now - lease.granted;
    }
    reply.devices.push_back(std::move(status));
  }
  for (const auto& [ticket, waiting] : queue_) {
    const rpc::LeaseRequest& wish = waiting.wish;
    reply.queue.push_back({wish.key, wish.client_name, wish.tenant, wish.job, waiting.position, now - waiting.since});
  }
  for (const auto& [known, seen] : keys_) {
    if (!offered.contains(known)) reply.absent_keys[known] = now - seen;
  }
  return reply;
}

}  // namespace autotune
