// Every step and every pass shows its result to the program watcher (ir/watch.h).
#include "ir/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"
#include "lower/lower.h"
#include "schedule/replay.h"

namespace autotune {
namespace {

std::vector<std::string> shown;
void Note(const std::string& where, const PrimFunc&) { shown.push_back(where); }

TEST(Watch, StepsAndPassesShowWhatTheyMake) {
  PrimFunc f = ParsePrimFunc(
                   "func f(x: f32[8] input, y: f32[8] output) { for i in 8 { block b(v: S 8 = i) {"
                   " y[v] = x[v] } } }")
                   .value();
  ProgramWatcher watcher = program_watcher.exchange(Note);
  auto schedule = Replay(f, ParseTrace("split(i, [2, 4]) -> i_0, i_1\nvectorize(i_1)\n").value());
  bool lowered = schedule.ok() && Lower(schedule->func(), Target::Parse("cpu").value()).ok();
  program_watcher = watcher;
  ASSERT_TRUE(schedule.ok()) << schedule.error().Text();
  EXPECT_TRUE(lowered);
  std::vector<std::string> expected = {"after the step split(i, [2, 4]) -> i_0, i_1", "after the step vectorize(i_1)",
                                       "before lowering"};
  for (const PassRow& row : LoweringPassTable().passes) {
    if (row.name != "split_prepare") expected.push_back("after pass " + std::string(row.name));
  }
  EXPECT_EQ(shown, expected);
}

}  // namespace
}  // namespace autotune
