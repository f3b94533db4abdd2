// `autotune explain` as users see it. No verdict depends on this machine: the schedules have faults that are not a
// matter of time, or nothing is run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/cli.h"

namespace autotune {
namespace {

using test::CliResult;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class ExplainCommand : public test::CliTest {};

TEST_F(ExplainCommand, LeadsFromARowOfAProfileOfAnUntunedPackageToTheCause) {
  const std::string package = File("my net.tar");
  ASSERT_EQ(Run({"compile", "--model", SmallModel(), "--no-records", "-o", package}).code, 0);
  const CliResult profile = Run({"bench", package, "--profile", "--seconds", "0.1"});
  ASSERT_EQ(profile.code, 0) << profile.err;
  const std::string hint = test::Lines(profile.out).back();
  EXPECT_THAT(hint, HasSubstr("autotune explain '" + package + "' "));
  const std::string task = hint.substr(hint.rfind(' ') + 1);
  const CliResult one = Run({"explain", package, task, "--seconds", "0.1"});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_THAT(one.out, AllOf(ContainsRegex("\ntask +" + task), HasSubstr("\nschedule:\n"), HasSubstr("\ntime "),
                             HasSubstr("the code that "), ContainsRegex("not tuned")));
}

TEST_F(ExplainCommand, ExplainsEveryKernelOfBothForms) {
  for (const std::string name : {"m.tar", "m.so"}) {
    ASSERT_EQ(Run({"compile", "--model", SmallModel(), "--no-records", "-o", File(name)}).code, 0);
    const CliResult all = Run({"explain", File(name), "--no-run"});
    EXPECT_EQ(all.code, 0) << all.err;
    EXPECT_EQ(test::Lines(all.out).size(), 1 + test::kSmallTasks) << all.out;  // a head, and a row for each task
    EXPECT_THAT(all.out, Not(HasSubstr("error")));
  }
}

TEST_F(ExplainCommand, ExplainsAScheduleInAFile) {
  const std::string trace = Write("trace.txt", "parallel(matmul_m)\n");
  const CliResult result = Run({"explain", "--op", "matmul:64,64,64", "--trace", trace, "--no-run"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(StartsWith("scalar: block matmul"), HasSubstr("\n  parallel(matmul_m)\n")));
  const std::string unfit = Write("unfit.txt", "parallel(no_such_loop)\n");
  EXPECT_THAT(Run({"explain", "--op", "matmul:64,64,64", "--trace", unfit, "--no-run"}).err,
              HasSubstr("--trace does not apply to matmul"));
}

TEST_F(ExplainCommand, ExplainsCodeForAnotherMachine) {
  const CliResult result = Run({"explain", "--op", "matmul:64,64,64", "--target",
                                "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1 -num-cores=4"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("the kernels cannot run here"));
  EXPECT_THAT(result.out, AllOf(HasSubstr("fmla"), HasSubstr("not measured")));
}

TEST_F(ExplainCommand, SaysWhetherWinogradsAlgorithmIsUsed) {
  const std::string conv = "conv2d:1,28,28,32;3,3,32,32;pad=1";
  EXPECT_THAT(Run({"explain", "--op", conv, "--no-run"}).out, ContainsRegex("\nWinograd's +(used|possible, but not)"));
  const CliResult without = Run({"explain", "--op", conv, "--no-run", "--no-winograd"});
  EXPECT_THAT(without.out, AllOf(StartsWith("direct: "), ContainsRegex("\nWinograd's +possible, but left out")));
  EXPECT_THAT(Run({"explain", "--op", conv + ";stride=2", "--no-run"}).out,
              AllOf(Not(StartsWith("direct: ")), ContainsRegex("\nWinograd's +not possible: its stride is 2")));
  EXPECT_THAT(Run({"explain", "--op", "matmul:64,64,64", "--no-run"}).out, Not(HasSubstr("Winograd")));
}

TEST_F(ExplainCommand, WritesJson) {
  const CliResult result = Run({"explain", "--op", "matmul:64,64,64", "--no-run", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Result<Json> json = Json::Parse(result.out);
  ASSERT_TRUE(json.ok()) << result.out;
  for (const char* key : {"cause", "sentence", "gain", "also", "task", "trace", "code", "threads"})
    EXPECT_FALSE((*json)[key].IsNull()) << key;
}

TEST_F(ExplainCommand, RefusesWhatItCannotFind) {
  ASSERT_EQ(Run({"compile", "--model", SmallModel(), "--no-records", "-o", File("m.tar")}).code, 0);
  EXPECT_EQ(Run({"explain"}).code, 2);
  EXPECT_EQ(Run({"explain", File("m.tar"), "--model", SmallModel(), "x"}).code, 2);
  EXPECT_THAT(Run({"explain", File("m.tar"), "0123456789", "--no-run"}).err, HasSubstr("0123456789"));
  EXPECT_THAT(Run({"explain", File("none.tar")}).err, HasSubstr("none.tar"));
}

}  // namespace
}  // namespace autotune
