#include "rpc/administration.h"

#include <algorithm>

#include "rpc/farm_event.h"
#include "rpc/peer_text.h"

namespace autotune::rpc {

bool IsPattern(std::string_view pattern) {
  std::string key(pattern);
  for (char& c : key) {
    if (c == '*' || c == '?') c = '-';
  }
  return IsKey(key);
}

// Takes time proportional to the product of the lengths: after a mismatch, only the latest '*' takes one character
// more.
bool MatchesGlob(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  return std::all_of(pattern.begin() + static_cast<std::ptrdiff_t>(p), pattern.end(), [](char c) { return c == '*'; });
}

bool NamesDevice(std::string_view pattern, std::string_view key, std::string_view server) {
  if (MatchesGlob(pattern, key)) return true;
  constexpr size_t kDigits = 4;  // a server's id begins with given ones by a chance of 1 in 65,536
  const size_t plain = std::min(pattern.find_first_of("*?"), pattern.size());
  return plain >= kDigits && MatchesGlob(std::string(pattern) + "*", server);
}

std::string AdminText(std::string_view who) {
  constexpr size_t kMost = 80;
  return who.empty() ? "an administrator" : Shown(who, kMost);
}

std::string HoldText(const DeviceHold& hold, const std::function<std::string(int64_t)>& until) {
  std::string text = (hold.how == hold::kLock ? "locked by " : "drained by ") + AdminText(hold.who);
  if (hold.for_ms > 0) text += " " + until(hold.for_ms);
  if (!hold.note.empty()) text += ": " + Shown(hold.note, kNameBytes);
  return text;
}

}  // namespace autotune::rpc
