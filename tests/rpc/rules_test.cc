#include "rpc/rules.h"

#include <gtest/gtest.h>

namespace autotune::rpc {
namespace {

// No rule can be switched off in a product.
static_assert(Holds(Rule::kFencing));

TEST(Rules, EachHasAName) {
  EXPECT_EQ(EnumFromText<Rule>("fencing"), Rule::kFencing);
  EXPECT_EQ(std::size(EnumNames<Rule>::kNames), static_cast<size_t>(Rule::kHandshakes) + 1) << "the last rule";
  EXPECT_EQ(ToText(Rule::kPhases), "phases");
  EXPECT_LE(std::size(EnumNames<Rule>::kNames), 64u) << "each has a bit of BrokenRules";
}

}  // namespace
}  // namespace autotune::rpc
