// The best schedules of a tuning run on a real network compute the right results, interpreted and compiled. The test
// computes on small integers, and compares exactly if the kernel does not round. The run itself compares floats within
// a tolerance.
#include <gtest/gtest.h>

#include "records/open.h"
#include "schedule/replay.h"
#include "tests/close.h"
#include "tests/codegen/kernel.h"
#include "tests/tools/cli.h"

namespace autotune {
namespace {

using test::CliResult;
using test::kExample;
using Winners = test::CliTest;

bool UsesExp(const Record& record) { return record.func.find("exp(") != std::string::npos; }

TEST_F(Winners, ComputeWhatWasAskedFor) {
  CliResult tuned = Run({"--model", kExample, "--shape", "image:1,3,12,12", "--trials", "45"});
  ASSERT_EQ(tuned.code, 0) << tuned.Text();
  auto store = OpenStore(db_).value();
  int compared = 0;
  for (const TaskSummary& task : store->Tasks().value()) {
    std::vector<Record> top = store->Top(task.task, store->Targets(task.task).value().at(0), 1).value();
    if (top.empty()) continue;  // a task that is only built to fold constants
    const Record& best = top[0];
    SCOPED_TRACE(best.func + best.trace);
    PrimFunc func = Parse(best.func);
    auto schedule = Replay(func, ParseTrace(best.trace).value());
    ASSERT_TRUE(schedule.ok()) << schedule.error().Text();
    // Winograd's transforms and exponentials round.
    const bool rounds = best.alternative != "direct" || UsesExp(best);
    const Tolerance tolerance = rounds ? Tolerance{1e-5, 1e-5} : Tolerance{0, 0};

    std::vector<InterpArray> expected = SmallIntegers(func, 1), interpreted = expected, compiled = expected;
    ASSERT_TRUE(Interpret(func, expected).ok());
    Status ran = Interpret(schedule->func(), interpreted);
    ASSERT_TRUE(ran.ok()) << ran.error().Text();
    EXPECT_EQ(test::Difference(func, interpreted, expected, tolerance), "");
    auto built = Build(schedule->func());
    ASSERT_TRUE(built.ok()) << built.error().Text();
    ASSERT_TRUE(autotune::Run(*built, schedule->func(), compiled).ok());
    EXPECT_EQ(test::Difference(func, compiled, expected, tolerance), "");
    ++compared;

    // The comparison notices one wrong element.
    compiled.back().data.back() += 1;
    EXPECT_NE(test::Difference(func, compiled, expected, tolerance), "");
  }
  EXPECT_EQ(compared, 15);

  CliResult verified = Run({"records", "verify", "--db", db_});
  EXPECT_EQ(verified.code, 0) << verified.Text();
}

}  // namespace
}  // namespace autotune
