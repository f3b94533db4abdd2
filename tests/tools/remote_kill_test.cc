// Each test kills one kind of process with SIGKILL while `run` and `bench` use a device of a farm: the server, the
// tracker, the client, or the runner. The command ends with one line and an exit code, or does not notice. No process,
// no lease and no temporary file stays behind.
#include <gmock/gmock.h>
#include <signal.h>

#include "tests/tools/farm.h"

namespace autotune {
namespace {

using test::CliResult;
using test::Process;
using test::ReadAll;
using test::Soon;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class RemoteKill : public test::FarmTest {
 protected:
  void SetUp() override {
    FarmTest::SetUp();
    ASSERT_EQ(Run({"compile", "--model", SmallModel(), "-o", File("m.tar"), "--quiet"}).code, 0);
    std::filesystem::create_directory(File("tmp"));
    setenv("TMPDIR", File("tmp").c_str(), 1);
  }
  void TearDown() override {
    EXPECT_TRUE(std::filesystem::is_empty(File("tmp"))) << "a temporary file is left";
    unsetenv("TMPDIR");
    FarmTest::TearDown();
  }
  // Runs that take long: many of one each, or one measurement after the other.
  std::vector<std::string> Words(const std::string& command, const std::string& seconds = "100") const {
    std::vector<std::string> words = {command, File("m.tar"), "--tracker", socket_, "--key", "pi"};
    if (command == "run") words.insert(words.end(), {"--repeat", "1000000"});
    if (command == "bench") words.insert(words.end(), {"--seconds", seconds});
    return words;
  }
  std::string Devices() { return Run({"devices", "--tracker", socket_}).out; }
  bool IsFree() { return Devices().find("free") != std::string::npos; }
  // Waits until calls have run for the command. A command that has ended before is an error.
  void AwaitCalls(Subprocess& command) {
    EXPECT_TRUE(Soon([&] { return !IsFree() && Devices().find("calls") != std::string::npos; }, 20));
    usleep(1500000);  // until `bench` has enough runs
    EXPECT_FALSE(command.Poll());
  }
  std::vector<Process> Runners() const { return test::DescendantsOf(servers_.back().pid()); }
  static void ExpectGone(const std::vector<Process>& processes) {
    for (const Process& process : processes)
      EXPECT_TRUE(Soon([&] { return !IsAlive(process); }, 10)) << process.pid << ": " << process.command;
  }
  // The lines of standard error that are no notes.
  static std::vector<std::string> Errors(const CliResult& result) {
    std::vector<std::string> errors;
    for (const std::string& line : test::Lines(result.err))
      if (line.starts_with("error")) errors.push_back(line);
    return errors;
  }
};

TEST_F(RemoteKill, OfTheServerEndsACommandWithOneLine) {
  for (const char* command : {"run", "bench"}) {
    Subprocess child = Start(Words(command), command);
    AwaitCalls(child);
    const std::vector<Process> runners = Runners();
    EXPECT_FALSE(runners.empty());
    servers_.back().Kill(SIGKILL);
    const CliResult result = Finish(child, command, 30);
    if (command == std::string("run")) {
      EXPECT_EQ(result.code, 1) << result.Text();
      EXPECT_THAT(Errors(result), SizeIs(1)) << result.err;
      EXPECT_THAT(result.err, HasSubstr("the device was lost"));
    } else {
      EXPECT_EQ(result.code, 0) << result.Text();
      EXPECT_THAT(result.err, HasSubstr("measured for a shorter time: the device was lost"));
    }
    ExpectGone(runners);
    servers_.back().Wait(5000);
    StartServer();
    ASSERT_TRUE(Soon([&] { return IsFree(); }, 30));
  }
}

TEST_F(RemoteKill, OfTheRunnerEndsACommandAndTheDeviceIsFreeAtOnce) {
  for (const char* command : {"run", "bench"}) {
    Subprocess child = Start(Words(command), command);
    AwaitCalls(child);
    const std::vector<Process> runners = Runners();
    for (const Process& runner : runners) kill(runner.pid, SIGKILL);  // the active one and the spare one
    const CliResult result = Finish(child, command, 30);
    EXPECT_EQ(result.code, command == std::string("run") ? 1 : 0) << result.Text();
    // Right behind an answer, the server knows only that the process gives no further one.
    EXPECT_THAT(result.err, AnyOf(HasSubstr("signal 9"), HasSubstr("the process of the earlier calls has ended")));
    ExpectGone(runners);
    EXPECT_TRUE(Soon([&] { return IsFree(); }, 10)) << Devices();
  }
}

// A lease goes on without the tracker, so nobody notices.
TEST_F(RemoteKill, OfTheTrackerIsNotNoticed) {
  Subprocess child = Start(Words("bench", "4"), "bench");
  AwaitCalls(child);
  tracker_->Kill(SIGKILL);
  tracker_->Wait(5000);
  const CliResult result = Finish(child, "bench", 30);
  EXPECT_EQ(result.code, 0) << result.Text();
  EXPECT_THAT(result.out, HasSubstr("throughput"));
  EXPECT_THAT(Errors(result), SizeIs(0)) << result.err;
  const CliResult later = Run(Words("bench", "1"));
  EXPECT_EQ(later.code, 1) << later.Text();
  EXPECT_THAT(Errors(later), SizeIs(1)) << "a new command needs the tracker: " << later.err;
  StartTracker();
  EXPECT_TRUE(Soon([&] { return IsFree(); }, 30));
}

TEST_F(RemoteKill, OfTheClientFreesTheDeviceAndEndsItsProcess) {
  for (const char* command : {"run", "bench"}) {
    Subprocess child = Start(Words(command), command);
    AwaitCalls(child);
    const std::vector<Process> runners = Runners();
    child.Kill(SIGKILL);
    child.Wait(5000);
    EXPECT_FALSE(IsFree()) << "the lease lasts 10 s after the latest message";
    EXPECT_TRUE(Soon([&] { return IsFree(); }, 30)) << Devices();
    const auto one_has_ended = [&] {
      return std::ranges::any_of(runners, [](const Process& process) { return !IsAlive(process); });
    };
    EXPECT_TRUE(Soon(one_has_ended, 10)) << "the process of the calls ends with its session";
    const CliResult next = Run(Words("bench", "0.1"));
    EXPECT_EQ(next.code, 0) << next.Text();
  }
}

}  // namespace
}  // namespace autotune
