// Tests of the final comparison: its winner, its end, and its measurements.
#include "tuner/confirm.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tuner/simulated.h"

namespace autotune {
namespace {

// Confirms finalists of one task. Their draft seconds (0, 1, 2 ...) identify them.
class ConfirmTest : public testing::Test {
 protected:
  ConfirmTest() : task_(test::TwoTasks()[1]), space_(TaskSpace::Make(task_, test::TestTarget()).value()) {}

  // Runs a confirmation of `n` finalists. `seconds(finalist, turn)` is the time of a turn; 0: the turn fails with
  // `failure`.
  Confirmation Run(size_t n, const std::function<double(int, int)>& seconds,
                   TrialStatus failure = TrialStatus::kWrongAnswer, bool verified = false) {
    std::vector<Finalist> finalists(n);
    for (size_t i = 0; i < n; ++i) finalists[i] = {{.draft_seconds = static_cast<double>(i)}, verified};
    std::vector<int> turn(n);
    test::Scripted device([&](test::Scripted&, const MeasureItem& item, const std::string&) {
      int i = static_cast<int>(item.proposal.draft_seconds);
      order_.push_back(i);
      checked_ += item.check;
      const std::string disturbed = turn[i] < disturbed_turns_ ? "load" : "";
      double cost = seconds(i, turn[i]++);
      if (cost == 0) return test::Failure(failure);
      return Outcome{.status = TrialStatus::kOk,
                     .times = {cost, cost + 1},
                     .cost = cost,
                     .verified = item.check,
                     .disturbed = disturbed};
    });
    Result<Confirmation> confirmation = Confirm(device, space_, finalists, {});
    EXPECT_TRUE(confirmation.ok());
    return *confirmation;
  }

  TuneTask task_;
  TaskSpace space_;
  std::vector<int> order_;  // the finalist of each measurement
  int checked_ = 0;
  int disturbed_turns_ = 0;  // the first turns that other processes disturb
};

TEST_F(ConfirmTest, ASignificantlyFasterChallengerWins) {
  // The machine is twice as fast in turn 2, for both finalists.
  Confirmation c = Run(2, [](int i, int turn) { return (i == 1 ? 0.97 : 1.0) * (turn == 2 ? 0.5 : 1); });
  EXPECT_EQ(c.winner, 1u);
  EXPECT_EQ(order_, (std::vector<int>{0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0})) << "six turns decide, in changing order";
  EXPECT_DOUBLE_EQ(c.outcomes[0].cost, 1.0) << "the median over the turns";
  EXPECT_EQ(c.outcomes[0].times.size(), 12u);
}

TEST_F(ConfirmTest, ATieStaysWithTheIncumbent) {
  // The challenger is faster in eight of twelve turns: in the median, but not significantly.
  Confirmation c = Run(2, [](int i, int turn) { return i == 0 ? 1.0 : turn % 5 < 3 ? 0.97 : 1.02; });
  EXPECT_EQ(c.winner, 0u);
  EXPECT_LT(c.outcomes[1].cost, c.outcomes[0].cost);
  EXPECT_EQ(order_.size(), 24u) << "an open result must take all turns";
}

TEST_F(ConfirmTest, AClearlySlowerChallengerIsGivenUpEarly) {
  Confirmation c = Run(3, [](int i, int) { return i == 1 ? 1.2 : i == 2 ? 0.97 : 1.0; });
  EXPECT_EQ(c.winner, 2u);
  EXPECT_EQ(std::count(order_.begin(), order_.end(), 1), 3);
  EXPECT_EQ(std::count(order_.begin(), order_.end(), 2), 6);
}

TEST_F(ConfirmTest, AClearlyFasterChallengerNeedsThreeTurns) {
  EXPECT_EQ(Run(2, [](int i, int) { return i == 1 ? 0.8 : 1.0; }).winner, 1u);
  EXPECT_EQ(order_.size(), 6u);
}

TEST_F(ConfirmTest, OfTwoFasterOnesTheFastestWins) {
  Confirmation c = Run(3, [](int i, int) { return 1.0 - 0.05 * i; });
  EXPECT_EQ(c.winner, 2u);
}

TEST_F(ConfirmTest, OneThatFailsOnceHasFailed) {
  Confirmation c = Run(2, [](int i, int turn) { return i == 1 ? (turn == 1 ? 0 : 0.5) : 1.0; });
  EXPECT_EQ(c.winner, 0u);
  EXPECT_EQ(c.outcomes[1].status, TrialStatus::kWrongAnswer);
  EXPECT_FALSE(c.outcomes[1].verified);
}

TEST_F(ConfirmTest, ALostTurnIsNoFailure) {
  Confirmation c = Run(
      2, [](int i, int turn) { return i == 1 ? (turn == 1 ? 0 : 0.5) : 1.0; }, TrialStatus::kInfrastructure);
  EXPECT_EQ(c.winner, 1u);
  EXPECT_EQ(c.outcomes[1].status, TrialStatus::kOk);
  EXPECT_TRUE(c.outcomes[1].verified);
}

// A confirmation whose later calls are cancelled must not look like a complete one.
TEST_F(ConfirmTest, ACancelledTurnShowsInTheOutcomes) {
  Confirmation c = Run(
      2, [](int i, int turn) { return turn >= 3 ? 0
                                      : i == 1  ? 0.97
                                                : 1.0; }, TrialStatus::kCancelled);
  EXPECT_EQ(c.outcomes[0].status, TrialStatus::kCancelled);
  EXPECT_LT(order_.size(), 24u) << "nothing more must be measured after the cancellation";
}

TEST_F(ConfirmTest, TheNextTakesTheFailedIncumbentsPlace) {
  Confirmation c = Run(3, [](int i, int) { return i == 0 ? 0 : i == 1 ? 1.0 : 1.001; });
  EXPECT_EQ(c.winner, 1u);
  Confirmation none = Run(2, [](int, int) { return 0.0; });
  EXPECT_FALSE(none.winner);
}

TEST_F(ConfirmTest, VerifiesWhatWasNotVerifiedAndThatOnce) {
  Confirmation c = Run(2, [](int, int) { return 1.0; });
  EXPECT_EQ(checked_, 2);
  checked_ = 0;
  c = Run(
      2, [](int, int) { return 1.0; }, TrialStatus::kWrongAnswer, /*verified=*/true);
  EXPECT_EQ(checked_, 0);
  EXPECT_TRUE(c.outcomes[0].verified && c.outcomes[1].verified);
}

TEST_F(ConfirmTest, AMedianIsDisturbedIfHalfOfItsTurnsAre) {
  for (int turns : {0, 2, 3, 6}) {
    disturbed_turns_ = turns;
    Confirmation c = Run(2, [](int i, int) { return i == 1 ? 0.97 : 1.0; });
    EXPECT_EQ(c.winner, 1u) << "turns decide, disturbed or not";
    ASSERT_EQ(c.outcomes[0].times.size(), 12u);
    for (const Outcome& outcome : c.outcomes) EXPECT_EQ(outcome.disturbed, turns < 3 ? "" : "load") << turns;
  }
}

TEST(Judge, NeedsSixTurnsOrAClearDifference) {
  EXPECT_EQ(Judge({}), Verdict::kOpen);
  EXPECT_EQ(Judge({0.97, 0.97, 0.97, 0.97, 0.97}), Verdict::kOpen);
  EXPECT_EQ(Judge({0.97, 0.97, 0.97, 0.97, 0.97, 0.97}), Verdict::kFaster);
  EXPECT_EQ(Judge({0.9, 0.9}), Verdict::kOpen);
  EXPECT_EQ(Judge({0.9, 0.9, 0.9}), Verdict::kFaster);
  EXPECT_EQ(Judge({0.9, 0.97, 0.9}), Verdict::kOpen);
  EXPECT_EQ(Judge({1.2, 1.2}), Verdict::kOpen);
  EXPECT_EQ(Judge({1.2, 1.2, 1.2}), Verdict::kNotFaster);
  EXPECT_EQ(Judge({1.2, 1.01, 1.2}), Verdict::kOpen);
  EXPECT_EQ(Judge({0.99, 0.98, 0.99, 0.97, 0.99, 0.99}), Verdict::kFaster);
  EXPECT_EQ(Judge({0.99, 0.98, 1.01, 0.97, 0.99, 0.99}), Verdict::kOpen);
  EXPECT_EQ(Judge({0.999, 0.998, 0.997, 0.999, 0.998, 0.999}), Verdict::kNotFaster) << "the gain is too small";
}

}  // namespace
}  // namespace autotune
