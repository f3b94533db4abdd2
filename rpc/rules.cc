#include "rpc/rules.h"

#ifdef AUTOTUNE_BREAKABLE
#include <atomic>
#include <string>

#include "support/check.h"

namespace autotune::rpc {
namespace {

constexpr int kNone = -1;
std::atomic<int> broken_rule{kNone};

}  // namespace

int BrokenRule() { return broken_rule.load(std::memory_order_relaxed); }

void BreakRule(std::string_view name) {
  const std::optional<Rule> rule = EnumFromText<Rule>(name);
  CHECK(rule || name.empty()) << "no rule '" << std::string(name) << "'";
  broken_rule = rule ? static_cast<int>(*rule) : kNone;
}

}  // namespace autotune::rpc
#endif
