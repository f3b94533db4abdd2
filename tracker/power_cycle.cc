#include "tracker/power_cycle.h"

#include <algorithm>

namespace autotune {
namespace {

constexpr int64_t kDayMs = int64_t{24} * 3600 * 1000;
constexpr int64_t kLonger = 3;  // times the wait before

}  // namespace

std::vector<ServerSilence> PowerCycle::Due(const std::vector<ServerSilence>& servers, int64_t now) {
  std::map<std::string, ServerSilence> silent;  // by member: the server that reported last
  for (const ServerSilence& server : servers) {
    const auto [it, is_first] = silent.emplace(server.member, server);
    ServerSilence& known = it->second;
    const bool spared = known.reports || server.reports, held = known.held || server.held;
    if (!is_first && server.silent_ms < known.silent_ms) known = server;
    known.reports = spared;
    known.held = held;
  }
  const auto reports = [](const auto& member) { return member.second.reports; };
  if (silent.size() > 1 && std::ranges::none_of(silent, reports)) return {};
  for (auto& [member, times] : switched_) std::erase_if(times, [&](int64_t time) { return now - time >= kDayMs; });
  std::vector<ServerSilence> due;
  for (const auto& [member, server] : silent) {
    if (!IsDue(server, now)) continue;
    switched_[member].push_back(now);
    due.push_back(server);
  }
  return due;
}

bool PowerCycle::IsDue(const ServerSilence& server, int64_t now) const {
  if (server.reports || server.held || Switches(server.member, now) >= options_.most_a_day) return false;
  int64_t since = now - server.silent_ms, wait = options_.after_ms;
  if (const auto times = switched_.find(server.member); times != switched_.end()) {
    for (const int64_t time : times->second) {
      if (time < now - server.silent_ms) continue;  // it has reported since
      since = time;
      wait *= kLonger;
    }
  }
  return now - since >= wait;
}

int PowerCycle::Switches(const std::string& member, int64_t now) const {
  const auto times = switched_.find(member);
  if (times == switched_.end()) return 0;
  return static_cast<int>(std::ranges::count_if(times->second, [&](int64_t time) { return now - time < kDayMs; }));
}

}  // namespace autotune
