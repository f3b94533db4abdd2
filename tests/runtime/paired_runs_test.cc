#include "runtime/paired_runs.h"

#include <gtest/gtest.h>

#include <string>

namespace autotune {
namespace {

TEST(PairedRuns, TurnsAlternateAndReverse) {
  std::string order;
  auto run = [&](char name) {
    return [&order, name]() -> Status {
      if (order.empty() || order.back() != name) order += name;
      return {};
    };
  };
  PairedTimes times =
      RunInPairs(run('a'), run('b'), {.half_width = 0, .max_seconds = 0, .min_pairs = 4, .visit_seconds = 0}).value();
  EXPECT_EQ(times.pairs.size(), 4u);
  EXPECT_EQ(order, "ababa");  // a b | b a | a b | b a, with equal neighbours merged
}

TEST(PairedRuns, StopsOnceTheIntervalIsNarrow) {
  auto nothing = [&]() -> Status { return {}; };
  PairedTimes times = RunInPairs(nothing, nothing, {.half_width = 1e9, .max_seconds = 60, .min_pairs = 10}).value();
  EXPECT_EQ(times.pairs.size(), 10u);
  EXPECT_GT(times.FirstSeconds(), 0);
  EXPECT_LE(times.Ratio().low, times.Ratio().median);
  EXPECT_LE(times.Ratio().median, times.Ratio().high);
}

TEST(PairedRuns, TooFewPairsBoundNothing) {
  auto nothing = [&]() -> Status { return {}; };
  PairedTimes times = RunInPairs(nothing, nothing, {.half_width = 1, .max_seconds = 0, .min_pairs = 3}).value();
  EXPECT_EQ(times.pairs.size(), 3u);
  EXPECT_GT(times.Ratio().HalfWidth(), 1e300);
}

TEST(PairedRuns, AnErrorEndsIt) {
  int left = 5;
  auto works = []() -> Status { return {}; };
  auto fails = [&]() -> Status { return --left > 0 ? Status() : Status(Err("no more")); };
  Result<PairedTimes> times = RunInPairs(works, fails, {.half_width = 0, .max_seconds = 60});
  ASSERT_FALSE(times.ok());
  EXPECT_NE(times.error().Text().find("no more"), std::string::npos);
}

}  // namespace
}  // namespace autotune
