// Tests every step with a function before and after it, and with its refusals. A file of tests/schedule/golden holds a
// function, steps, the function after them, and traces whose last step is refused, each with its message.
// AUTOTUNE_UPDATE_GOLDENS=1 rewrites the functions after the steps, the results' names, and the messages.
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "ir/text.h"
#include "ir/visit.h"
#include "schedule/replay.h"
#include "tests/read.h"
#include "tests/schedule/golden.h"
#include "tests/schedule/zoo.h"

namespace autotune {
namespace {

TEST(Golden, StepsBeforeAndAfter) {
  bool update = getenv("AUTOTUNE_UPDATE_GOLDENS") != nullptr;
  std::set<size_t> legal, refused;  // indices of the step types that occur
  for (const auto& path : zoo::GoldenFiles()) {
    SCOPED_TRACE(path.filename());
    zoo::Golden golden = zoo::ReadGolden(path);
    auto before = ParsePrimFunc(golden.before);
    ASSERT_TRUE(before.ok()) << before.error().Text();
    Schedule schedule = zoo::Scheduled(*before, golden.trace);
    zoo::ExpectSame(*before, schedule.func());
    for (const Step& step : schedule.trace()) legal.insert(step.index());
    if (update) {
      golden.trace = ToText(schedule.trace());
      golden.after = ToText(schedule.func());
    }
    EXPECT_EQ(ToText(schedule.trace()), golden.trace);
    EXPECT_EQ(ToText(schedule.func()), golden.after);
    EXPECT_FALSE(golden.fails.empty());
    for (auto& [trace, message] : golden.fails) {
      std::string error = zoo::ErrorOf(*before, trace);
      EXPECT_NE(error, "") << trace << "is legal";
      if (update) message = error;
      EXPECT_EQ(error, message) << trace;
      auto steps = ParseTrace(trace);
      if (steps.ok()) refused.insert(steps->back().index());
    }
    if (update) zoo::WriteGolden(path, golden);
  }
  const std::vector<std::string> names = zoo::StepNames();
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_TRUE(legal.contains(i)) << "no golden has " << names[i];
    EXPECT_TRUE(refused.contains(i)) << "no golden refuses " << names[i];
  }
}

// Returns the steps in the tables of a page, such as `split(l, t)`, without their arguments.
std::set<std::string> StepsOnThePage(const std::string& page) {
  std::set<std::string> steps;
  static const std::regex kRow(R"(\n\| `([a-z_]+)\()");
  for (std::sregex_iterator at(page.begin(), page.end(), kRow), end; at != end; ++at) steps.insert((*at)[1]);
  return steps;
}

TEST(Golden, ThePageHasEveryStep) {
  const std::vector<std::string> names = zoo::StepNames();
  EXPECT_EQ(StepsOnThePage(test::ReadAll(AUTOTUNE_SOURCE_DIR "/docs/trace.md")),
            std::set<std::string>(names.begin(), names.end()));
  EXPECT_EQ(StepsOnThePage("Text `fuse(a)`\n| `split(l, t)` | ... |\n"), std::set<std::string>{"split"});
}

}  // namespace
}  // namespace autotune
