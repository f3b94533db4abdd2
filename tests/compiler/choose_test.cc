// The decisions of the final choice, on comparisons that the tests make up. tests/compiler/compile_test.cc measures.
#include "compiler/choose.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <utility>

namespace autotune {
namespace {

const Variants kUntuned{0, 0}, kBefore{1, 0}, kSelected{2, 1};

// Says which packages are clearly faster than which others. All other pairs are equally fast.
struct Race {
  std::set<std::pair<Variants, Variants>> faster;  // (the faster one, the slower one)
  std::vector<std::pair<Variants, Variants>> run = {};
  std::vector<NetworkComparison> last = {};   // comparisons that DecideVariants returned
  std::optional<RefusedChange> refusal = {};  // likewise

  Variants Decide(const std::optional<Variants>& before, const Variants& selected) {
    auto compare = [&](const Variants& first, const Variants& second) -> Result<std::vector<NetworkComparison>> {
      run.emplace_back(first, second);
      const double ratio = faster.contains({second, first}) ? 0.9 : faster.contains({first, second}) ? 1.1 : 1;
      return std::vector<NetworkComparison>{
          {.threads = 2, .ratio = ratio, .ratio_low = ratio - 0.005, .ratio_high = ratio + 0.005}};
    };
    NetworkDecision decision = DecideVariants(kUntuned, before, selected, compare).value();
    last = decision.comparisons;
    refusal = decision.refusal;
    return decision.chosen;
  }
};

TEST(DecideVariants, WithoutAnEarlierChoiceTheSelectedOnesMustBeatTheDefaults) {
  Race race{.faster = {{kSelected, kUntuned}}};
  EXPECT_EQ(race.Decide(std::nullopt, kSelected), kSelected);
  ASSERT_EQ(race.last.size(), 1u);
  EXPECT_EQ(race.last[0].ratio, 0.9);
  EXPECT_FALSE(race.refusal);
  for (Race other : {Race{}, Race{.faster = {{kUntuned, kSelected}}}}) {
    EXPECT_EQ(other.Decide(std::nullopt, kSelected), kUntuned);
    EXPECT_EQ(other.last.size(), 1u) << "the comparison is reported even if the defaults stay";
    ASSERT_TRUE(other.refusal);
    EXPECT_EQ(other.refusal->kind, other.faster.empty() ? ChangeKind::kEven : ChangeKind::kLoss);
    EXPECT_TRUE(other.refusal->against_default && !other.refusal->of_previous);
  }
}

TEST(DecideVariants, NothingIsComparedIfNothingWasSelected) {
  Race race;
  EXPECT_EQ(race.Decide(std::nullopt, kUntuned), kUntuned);
  EXPECT_TRUE(race.run.empty());
  EXPECT_FALSE(race.refusal);
  EXPECT_TRUE(race.last.empty());
}

TEST(DecideVariants, TheSelectedOnesMustBeatTheEarlierChoiceFirst) {
  Race even{.faster = {{kSelected, kUntuned}, {kBefore, kUntuned}}};
  EXPECT_EQ(even.Decide(kBefore, kSelected), kBefore);
  ASSERT_TRUE(even.refusal);
  EXPECT_TRUE(!even.refusal->against_default && !even.refusal->of_previous);
  Race better = even;
  better.faster.insert({kSelected, kBefore});
  EXPECT_EQ(better.Decide(kBefore, kSelected), kSelected);
}

TEST(DecideVariants, TheEarlierChoiceStaysUnlessTheDefaultsAreFaster) {
  Race even;
  EXPECT_EQ(even.Decide(kBefore, kUntuned), kBefore);
  EXPECT_FALSE(even.refusal) << "nothing was selected";
  EXPECT_EQ(even.last.size(), 1u);
  Race worse{.faster = {{kUntuned, kBefore}}};
  EXPECT_EQ(worse.Decide(kBefore, kUntuned), kUntuned);
  EXPECT_EQ(worse.Decide(kBefore, kBefore), kUntuned);
  ASSERT_TRUE(worse.refusal);
  EXPECT_TRUE(worse.refusal->of_previous && worse.refusal->against_default);
  EXPECT_EQ(worse.refusal->kind, ChangeKind::kLoss);
  EXPECT_EQ(worse.refusal->at.ratio, 1.1) << "refused / kept";
}

// Measured comparisons need not be transitive: the machine may change between them.
TEST(DecideVariants, TheEarlierChoiceIsComparedItselfIfItsVictorLosesToTheDefaults) {
  Race race{.faster = {{kSelected, kBefore}, {kUntuned, kSelected}, {kBefore, kUntuned}}};
  EXPECT_EQ(race.Decide(kBefore, kSelected), kBefore);
  using Pair = std::pair<Variants, Variants>;
  EXPECT_EQ(race.run, (std::vector<Pair>{{kBefore, kSelected}, {kUntuned, kSelected}, {kUntuned, kBefore}}));
  ASSERT_EQ(race.last.size(), 1u);
  EXPECT_EQ(race.last[0].ratio, 0.9) << "the comparison of the defaults with the choice that stays";
}

TEST(DecideVariants, AnErrorEndsTheDecision) {
  auto broken = [](const Variants&, const Variants&) -> Result<std::vector<NetworkComparison>> {
    return Err("stopped");
  };
  EXPECT_FALSE(DecideVariants(kUntuned, kBefore, kSelected, broken).ok());
}

}  // namespace
}  // namespace autotune
