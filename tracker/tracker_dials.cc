// How a tracker finds out whether clients can reach a server: it connects to the server's address itself, before it
// offers the device. It does so again when the server registers again, or states another address. Strangers may choose
// these addresses, so the number of connections has a limit.
#include <algorithm>
#include <string>

#include "rpc/address.h"
#include "support/join.h"
#include "tracker/tracker_state.h"

namespace autotune {

void TrackerState::SetDialed(const rpc::Id& id, Server& server, Server::Dialed dialed, int64_t now, int64_t delay) {
  using Dialed = Server::Dialed;
  if (server.dialed == Dialed::kUnderWay) dialled_.push_back({id, {}, ""});
  due_dials_.Clear(id);
  dials_.Clear(id);
  server.dialed = dialed;
  if (dialed == Dialed::kUnderWay) {
    const rpc::DeviceInfo& device = server.report.device;
    dials_.Set(id, now + options_.dial_ms);
    dialled_.push_back({id, device.AllEndpoints(), device.public_key});
    return;
  }
  if (dialed == Dialed::kDue) due_dials_.Set(id, now + delay);
  StartDials(now);
}

// Returns when the next dial may begin. The first dials, as many as may be under way at a time, begin at once. Later
// ones begin between_dials_ms apart.
int64_t TrackerState::NextDial() const {
  if (dials_.Size() >= options_.most_dials) return rpc::kNever;
  const int64_t burst = (static_cast<int64_t>(options_.most_dials) - 1) * options_.between_dials_ms;
  return std::max(due_dials_.Earliest(), dials_until_ - burst);
}

// Servers are dialled in the order in which their dials became due, so each has its turn.
void TrackerState::StartDials(int64_t now) {
  while (NextDial() <= now) {
    const rpc::Id id = due_dials_.First();
    dials_until_ = std::max(dials_until_, now) + options_.between_dials_ms;
    SetDialed(id, servers_.at(id), Server::Dialed::kUnderWay, now);
  }
}

void TrackerState::FailDial(const rpc::Id& id, Server& server, const std::string& why, int64_t now) {
  server.dial_again = std::clamp(2 * server.dial_again, options_.dial_again_ms, options_.longest_dial_again_ms);
  SetDialed(id, server, Server::Dialed::kDue, now, server.dial_again);
  if (std::exchange(server.dial_error, why) != why)
    Happened(rpc::FarmEvent::Kind::kUnreachable, id, server, why, nullptr, now, ReachHelp(server));
}

void TrackerState::OnDialOverdue(int64_t now) {
  const rpc::Id id = dials_.First();
  Server& server = servers_.at(id);
  const std::string found = options_.dial_trouble(id);
  FailDial(id, server,
           "nobody answers the tracker at the server's address " +
               (found.empty() ? Joined(server.report.device.AllEndpoints()) : found),
           now);
}

// --- Clients that cannot reach a server ------------------------------------------------------------------------------

void TrackerState::OnUnreached(const Lease& lease, const std::string& why, int64_t now) {
  const auto found = servers_.find(lease.server);
  if (found == servers_.end()) return;
  Server& server = found->second;
  server.client = lease.client;
  server.client_failed = now;
  const std::string text = "the client " + lease.client_name + " cannot reach it: " + why;
  if (std::exchange(server.client_error, text) == text) return;
  Happened(rpc::FarmEvent::Kind::kUnreachable, found->first, server, text, nullptr, now, ReachHelp(server));
}

// Says why clients, or one of them, cannot reach a server; "" if they can.
std::string TrackerState::Trouble(const Server& server, int64_t now) const {
  constexpr int64_t kRememberMs = 600000;  // [chosen]
  if (!server.dial_error.empty()) return server.dial_error;
  return now - server.client_failed < kRememberMs ? server.client_error : "";
}

// Says what may help if the addresses that a server states do not lead to it.
std::string TrackerState::ReachHelp(const Server& server) const {
  const std::vector<std::string> endpoints = server.report.device.AllEndpoints();
  if (!rpc::IsTcp(endpoints.front())) return "";
  const std::string port = rpc::PortOf(endpoints.front());
  // The server has stated it, and people paste the help into a shell.
  if (port.empty() || port.find_first_not_of("0123456789") != std::string::npos) return "";
  std::string help;
  if (!server.address.empty() && std::ranges::find(endpoints, server.address, rpc::HostOf) == endpoints.end())
    help = "the server connects from " + server.address + "; if others reach it there, start it with --advertise " +
           server.address + ":" + port + ". Otherwise ";
  return help + "open port " + port + " on the server's host, or forward it: `ssh -N -R '*:" + port +
         ":localhost:" + port + "' " + options_.host + "` there (with GatewayPorts on " + options_.host +
         ") and --advertise " + options_.host + ":" + port +
         ", or use WireGuard between the hosts and --advertise WIREGUARD-ADDRESS:" + port;
}

TrackerState::Dials TrackerState::OnDialAnswer(const Dial& dial, const rpc::Message& answer, int64_t now) {
  Advance(now);
  const auto found = servers_.find(dial.server);
  if (found == servers_.end()) return Take();
  const auto& [id, server] = *found;
  const bool is_of_earlier_dial = server.report.device.AllEndpoints() != dial.endpoints;
  if (server.dialed != Server::Dialed::kUnderWay || is_of_earlier_dial) return Take();
  const rpc::Pong* pong = answer.As<rpc::Pong>();
  // A server before version 2.3 does not say who it is.
  const bool is_it = pong && (pong->server.empty() ? answer.minor < 3 : pong->server == rpc::PublicId(id));
  if (!is_it) {
    FailDial(id, found->second, "another program answers at the server's address " + Joined(dial.endpoints), now);
    return Take();
  }
  found->second.dial_again = 0;
  SetDialed(id, found->second, Server::Dialed::kAnswered, now);
  if (!std::exchange(found->second.dial_error, "").empty()) Happened(rpc::FarmEvent::Kind::kRegistered, id, server);
  Dispatch(now);
  return Take();
}

std::optional<TrackerState::Dials> TrackerState::EndDials(int64_t now) {
  if (dials_.Size() == 0) return std::nullopt;
  Advance(now);
  std::vector<rpc::Id> ended;
  for (const auto& [id, server] : servers_)
    if (server.dialed == Server::Dialed::kUnderWay) ended.push_back(id);
  for (const rpc::Id& id : ended) {
    Server& server = servers_.at(id);
    FailDial(id, server,
             "more than an answer came while the tracker dialled the server's address " +
                 server.report.device.endpoint + " and others",
             now);
  }
  return Take();
}

}  // namespace autotune
