// The decisions of the final choice, on comparisons that the tests make up. tests/compiler/compile_test.cc measures.
#include "compiler/choose.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace autotune {
namespace {

TEST(IsImprovement, NeedsAGainAndNoLoss) {
  MedianInterval faster{0.9, 0.95, 0.99}, slower{1.01, 1.05, 1.1}, even{0.995, 1, 1.005}, unknown{0.9, 1, 1.05};
  EXPECT_TRUE(IsImprovement({faster, even}));
  EXPECT_TRUE(IsImprovement({even, faster}));
  EXPECT_FALSE(IsImprovement({faster, slower}));
  EXPECT_FALSE(IsImprovement({faster, unknown}));
  EXPECT_FALSE(IsImprovement({even, even}));
  EXPECT_FALSE(IsImprovement({{0.998, 0.999, 0.9995}, {0.999, 1.004, 1.009}})) << "slower on average";
  EXPECT_FALSE(IsImprovement({}));
}

const Variants kUntuned{0, 0}, kBefore{1, 0}, kSelected{2, 1};

// Says which packages are clearly faster than which others. All other pairs are equally fast.
struct Race {
  std::set<std::pair<Variants, Variants>> faster;  // (the faster one, the slower one)
  std::vector<std::pair<Variants, Variants>> run = {};
  std::vector<NetworkComparison> last = {};  // comparisons that DecideVariants returned

  Variants Decide(const std::optional<Variants>& before, const Variants& selected) {
    auto compare = [&](const Variants& first, const Variants& second) -> Result<std::vector<NetworkComparison>> {
      run.emplace_back(first, second);
      const double ratio = faster.contains({second, first}) ? 0.9 : faster.contains({first, second}) ? 1.1 : 1;
      return std::vector<NetworkComparison>{
          {.threads = 2, .ratio = ratio, .ratio_low = ratio - 0.005, .ratio_high = ratio + 0.005}};
    };
    last.clear();
    return DecideVariants(kUntuned, before, selected, compare, last).value();
  }
};

TEST(DecideVariants, WithoutAnEarlierChoiceTheSelectedOnesMustBeatTheDefaults) {
  Race race{.faster = {{kSelected, kUntuned}}};
  EXPECT_EQ(race.Decide(std::nullopt, kSelected), kSelected);
  ASSERT_EQ(race.last.size(), 1u);
  EXPECT_EQ(race.last[0].ratio, 0.9);
  for (Race other : {Race{}, Race{.faster = {{kUntuned, kSelected}}}}) {
    EXPECT_EQ(other.Decide(std::nullopt, kSelected), kUntuned);
    EXPECT_EQ(other.last.size(), 1u) << "the comparison is reported even if the defaults stay";
  }
}

TEST(DecideVariants, NothingIsComparedIfNothingWasSelected) {
  Race race;
  EXPECT_EQ(race.Decide(std::nullopt, kUntuned), kUntuned);
  EXPECT_TRUE(race.run.empty());
  EXPECT_TRUE(race.last.empty());
}

TEST(DecideVariants, TheSelectedOnesMustBeatTheEarlierChoiceFirst) {
  Race even{.faster = {{kSelected, kUntuned}, {kBefore, kUntuned}}};
  EXPECT_EQ(even.Decide(kBefore, kSelected), kBefore);
  Race better = even;
  better.faster.insert({kSelected, kBefore});
  EXPECT_EQ(better.Decide(kBefore, kSelected), kSelected);
}

TEST(DecideVariants, TheEarlierChoiceStaysUnlessTheDefaultsAreFaster) {
  Race even;
  EXPECT_EQ(even.Decide(kBefore, kUntuned), kBefore);
  Race worse{.faster = {{kUntuned, kBefore}}};
  EXPECT_EQ(worse.Decide(kBefore, kUntuned), kUntuned);
  EXPECT_EQ(worse.Decide(kBefore, kBefore), kUntuned);
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
  std::vector<NetworkComparison> last;
  auto broken = [](const Variants&, const Variants&) -> Result<std::vector<NetworkComparison>> {
    return Err("stopped");
  };
  EXPECT_FALSE(DecideVariants(kUntuned, kBefore, kSelected, broken, last).ok());
}

}  // namespace
}  // namespace autotune
