#include "rpc/rules.h"

#ifdef AUTOTUNE_BREAKABLE
#include <atomic>
#include <cstdlib>
#include <string>

#include "support/check.h"

namespace autotune::rpc {
namespace {

constexpr int kNone = -1;

int RuleOrNone(std::string_view name) {
  if (name.empty()) return kNone;
  const std::optional<Rule> rule = EnumFromText<Rule>(name);
  CHECK(rule) << "no rule '" << std::string(name) << "'";
  return static_cast<int>(*rule);
}

std::atomic<int>& Broken() {
  static std::atomic<int> broken = [] {
    const char* name = std::getenv("AUTOTUNE_BROKEN_RULE");
    return RuleOrNone(name ? name : "");
  }();
  return broken;
}

}  // namespace

int BrokenRule() { return Broken().load(std::memory_order_relaxed); }
void BreakRule(std::string_view name) { Broken() = RuleOrNone(name); }

}  // namespace autotune::rpc
#endif
