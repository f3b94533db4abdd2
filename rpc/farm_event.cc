#include "rpc/farm_event.h"

#include <algorithm>

#include "support/clock_text.h"
#include "support/utf8.h"

namespace autotune::rpc {
namespace {

// A peer's text, short and on one line.
std::string Shown(std::string_view text) {
  constexpr size_t kMost = 80;  // bytes
  const std::string_view shown = CutText(text, kMost);
  return OneLine(shown) + (shown.size() < text.size() ? "..." : "");
}

}  // namespace

std::string Text(const FarmEvent& event) {
  const LeaseHolder& holder = event.holder;
  const std::string device = "`" + Shown(event.key) + "` (server " + Shown(event.server.substr(0, 8)) + ") ";
  const std::string client = Shown(holder.client_name);
  const std::string lasting = " after " + LastingText(holder.held_ms);
  switch (event.kind) {
    case FarmEvent::Kind::kRegistered:
      return device + "registered at " + Shown(event.endpoint);
    case FarmEvent::Kind::kUnreachable:
      return device + "is unreachable: " + event.why;
    case FarmEvent::Kind::kLeft:
      return device + "left";
    case FarmEvent::Kind::kLeased:
      return device + "leased to " + client + (holder.job.empty() ? "" : " for the job " + Shown(holder.job));
    case FarmEvent::Kind::kReturned:
      return device + "returned by " + client + lasting;
    case FarmEvent::Kind::kLost:
      return device + "lost by " + client + lasting + ": " + event.why;
  }
  return device;
}

bool IsKey(std::string_view key) {
  constexpr size_t kMostBytes = 256;
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._:-").find(c) != std::string_view::npos;
  };
  return !key.empty() && key.size() <= kMostBytes && std::all_of(key.begin(), key.end(), allowed);
}

}  // namespace autotune::rpc
