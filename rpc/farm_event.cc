#include "rpc/farm_event.h"

#include <algorithm>

#include "rpc/peer_text.h"
#include "support/clock_text.h"

namespace autotune::rpc {
namespace {

constexpr size_t kMostName = 80, kMostText = 400;  // bytes of a peer's text

std::string Name(std::string_view text) { return Shown(text, kMostName); }

}  // namespace

std::string Text(const FarmEvent& event) {
  const LeaseHolder& holder = event.holder;
  const std::string device = "`" + Name(event.key) + "` (server " + Name(event.server.substr(0, 8)) + ") ";
  const std::string client = Name(holder.client_name);
  const std::string lasting = " after " + LastingText(holder.held_ms);
  switch (event.kind) {
    case FarmEvent::Kind::kRegistered:
      return device + "registered at " + Name(event.endpoint);
    case FarmEvent::Kind::kUnreachable:
      return device + "is unreachable: " + Shown(event.why, kMostText);
    case FarmEvent::Kind::kLeft:
      return device + "left";
    case FarmEvent::Kind::kLeased:
      return device + "leased to " + client + (holder.job.empty() ? "" : " for the job " + Name(holder.job));
    case FarmEvent::Kind::kReturned:
      return device + "returned by " + client + lasting;
    case FarmEvent::Kind::kLost:
      return device + "lost by " + client + lasting + ": " + event.why;
    case FarmEvent::Kind::kQuarantined:
      return device + "quarantined: " + Shown(event.why, kMostText);
    case FarmEvent::Kind::kRecovered:
      return device + "passed its probe and is back in service";
    case FarmEvent::Kind::kDrained:
    case FarmEvent::Kind::kLocked:
      return "`" + Name(event.key) + "` " + Shown(event.why, kMostText);
    case FarmEvent::Kind::kHoldEnded:
      return "`" + Name(event.key) + "` back in service: " + Shown(event.why, kMostText);
  }
  return device;
}

bool IsKey(std::string_view key) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._:-").find(c) != std::string_view::npos;
  };
  return !key.empty() && key.size() <= kNameBytes && std::all_of(key.begin(), key.end(), allowed);
}

}  // namespace autotune::rpc
