// Networks whose schedules a builder refuses.
#include <gmock/gmock.h>

#include "tests/compiler/compile_fixture.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;

TEST_F(CompileTest, ATaskWithoutAScheduleThatBuildsStillCompilesAndSaysSo) {
  for (const KernelChoice& choice : shared_->plain.choices) EXPECT_EQ(choice.note, "") << choice.task->label;
  Refusing refusing(*shared_->builder, [](const BuildRequest& request) {
    return !request.trace.empty() && request.kernel.find("softmax") != std::string::npos;
  });
  CompileResult result = Compile(network(), target(), nullptr, refusing).value();
  int unscheduled = 0;
  for (const KernelChoice& choice : result.choices) {
    if (choice.note.empty()) continue;
    ++unscheduled;
    EXPECT_THAT(choice.task->label, HasSubstr("softmax"));
    EXPECT_EQ(choice.trace, "");
    EXPECT_THAT(choice.note, HasSubstr("compiled without a schedule (rejected: of no use here)"));
  }
  EXPECT_EQ(unscheduled, 1);
  Comparison comparison = Check(result.package);
  EXPECT_TRUE(comparison.ok) << comparison.Text();
}

// If all default schedules of a task spill, the one that spills least is used: it is faster than no schedule.
TEST_F(CompileTest, ATaskWhoseSchedulesAllSpillIsScheduled) {
  std::string least;
  auto spills = [&](const BuildRequest& request) -> int64_t {
    if (least.empty()) least = request.trace;  // the first one that is tried
    return request.trace == least ? 3 : 5;
  };
  auto is_softmax = [](const BuildRequest& request) { return request.kernel.find("softmax") != std::string::npos; };
  for (bool always : {false, true}) {  // true: the schedule is also refused when it may spill
    Refusing refusing(
        *shared_->builder,
        [&](const BuildRequest& request) {
          return is_softmax(request) && !request.trace.empty() && (always || !request.options.keep_spills);
        },
        spills);
    CompileResult result = Compile(network(), target(), nullptr, refusing).value();
    for (const KernelChoice& choice : result.choices) {
      if (choice.task->label.find("softmax") == std::string::npos) continue;
      EXPECT_EQ(choice.trace, always ? "" : least);
      EXPECT_THAT(choice.note, HasSubstr(always ? "compiled without a schedule" : "spills registers"));
    }
    EXPECT_NE(least, "");
    EXPECT_TRUE(Check(result.package).ok);
  }
}

}  // namespace
}  // namespace autotune
