// The options and the help of all programs, as a user sees them.
#include <fcntl.h>
#include <gmock/gmock.h>

#include "records/open.h"
#include "support/cpus.h"
#include "tests/tools/cli.h"

namespace autotune {
namespace {

using test::CliResult;
using test::Lines;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Usage = test::CliTest;

TEST_F(Usage, ATargetWithMoreCoresThanTheDeviceIsTunedForTheDevicesCores) {
  const std::string own = std::to_string(AvailableCpus()), many = std::to_string(AvailableCpus() + 62);
  auto with = [&](std::vector<std::string> command, const std::string& cores) {
    command.insert(command.end(), {"--op", "matmul:16,16,16", "--target", "llvm -num-cores=" + cores});
    return Run(command);
  };
  const std::string note = "the target has " + many + " cores, but the device has " + own;
  const CliResult tuned = with({"tune", "--trials", "2"}, many);
  EXPECT_EQ(tuned.code, 0) << tuned.Text();
  EXPECT_THAT(tuned.err, HasSubstr(note));
  const std::vector<TaskSummary> tasks = OpenStore(db_).value()->Tasks().value();
  ASSERT_EQ(tasks.size(), 1u);
  EXPECT_THAT(tasks[0].target, ::testing::EndsWith("-num-cores=" + own));
  // The target's own cores need no note, and no records pass for those of the target with many.
  EXPECT_THAT(with({"tune", "--trials", "2"}, own).err, Not(HasSubstr("but the device has")));
  EXPECT_EQ(OpenStore(db_).value()->Count({.trials_only = true}).value(), 2);
}

TEST_F(Usage, HelpFitsTheTerminal) {
  std::vector<std::vector<std::string>> commands = {{"--help"}, {"--help-all"}};
  for (const char* command : {"tune", "compile", "run", "bench", "verify", "records", "replay", "devices", "doctor",
                              "inspect", "explain", "report", "compare"})
    commands.push_back({command, "--help"});
  std::vector<std::string> texts;
  for (const std::vector<std::string>& command : commands) {
    texts.push_back(Run(command).out);
    if (command.size() == 2 && command[0] != "records") {  // whose commands take the options
      EXPECT_THAT(texts.back(), AllOf(HasSubstr("--json"), HasSubstr("-q,--quiet"))) << command[0];
    }
  }
  for (const char* program : {"/rpc_server", "/rpc_tracker"}) {
    UniqueFd out(open(File("help").c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
    auto child = Subprocess::Spawn({.argv = {test::kTools + program, "--help"}, .fds = {{1, out.get()}}});
    ASSERT_TRUE(child.ok() && child->Wait(20000));
    texts.push_back(test::ReadAll(File("help")));
  }
  for (const std::string& text : texts) {
    EXPECT_THAT(text, HasSubstr("Usage"));
    for (const std::string& line : Lines(text)) EXPECT_LE(line.size(), 100u) << line;
  }
}

}  // namespace
}  // namespace autotune
