#include "rpc/allow_list.h"

#include "rpc/rules.h"

namespace autotune::rpc {

void AllowList::Set(Entries entries) {
  std::lock_guard hold(mutex_);
  entries_ = std::move(entries);
}

std::optional<AllowList::Entry> AllowList::Find(const std::string& public_key) const {
  if (of_everybody_) return Entry{.name = {}, .roles = *of_everybody_};
  std::lock_guard hold(mutex_);
  if (!Holds(Rule::kAllowList)) return Entry{.name = "anybody", .roles = kUnauthenticated};
  const auto found = entries_.find(public_key);
  if (found == entries_.end()) return std::nullopt;
  return found->second;
}

}  // namespace autotune::rpc
