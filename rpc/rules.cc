#include "rpc/rules.h"

#ifdef AUTOTUNE_BREAKABLE
#include <algorithm>
#include <atomic>
#include <string>

#include "support/check.h"

namespace autotune::rpc {
namespace {

std::atomic<uint64_t> broken_rules{0};

}  // namespace

uint64_t BrokenRules() { return broken_rules.load(std::memory_order_relaxed); }

void BreakRule(std::string_view names) {
  uint64_t rules = 0;
  while (!names.empty()) {
    const std::string name(names.substr(0, names.find(',')));
    const std::optional<Rule> rule = EnumFromText<Rule>(name);
    CHECK(rule) << "no rule '" << name << "'";
    rules |= uint64_t{1} << static_cast<int>(*rule);
    names.remove_prefix(std::min(names.size(), name.size() + 1));
  }
  broken_rules = rules;
}

}  // namespace autotune::rpc
#endif
