// The commands of rpc_tracker for administrators, on a real tracker and a real device server.
#include <gmock/gmock.h>

#include <csignal>

#include "tests/tools/farm.h"

namespace autotune {
namespace {

using test::CliResult;
using test::Soon;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class TrackerCommands : public test::FarmTest {
 protected:
  Subprocess StartCommand(std::vector<std::string> arguments, const std::string& name) {
    arguments.insert(arguments.begin(), test::kTools + "/rpc_tracker");
    const auto file = [&](const char* suffix) {
      return UniqueFd(open(File(name + suffix).c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
    };
    const UniqueFd out = file(".out"), err = file(".err");
    auto child = Subprocess::Spawn({.argv = arguments, .fds = {{1, out.get()}, {2, err.get()}}});
    EXPECT_TRUE(child.ok());
    return std::move(child).value();
  }
  // Runs a command of rpc_tracker for this farm's tracker.
  CliResult Ask(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--tracker", socket_});
    return RunCommand(std::move(arguments));
  }
  CliResult RunCommand(std::vector<std::string> arguments) {
    Subprocess child = StartCommand(std::move(arguments), "command");
    return Finish(child, "command", 60);
  }
  std::string StatusLine() { return Ask({"status"}).out; }
};

TEST_F(TrackerCommands, ADrainIsShownSurvivesARestartAndEnds) {
  const CliResult drained = Ask({"drain", "p*", "--for", "2h", "--note", "new fan"});
  EXPECT_EQ(drained.code, 0) << drained.Text();
  EXPECT_THAT(drained.out,
              AllOf(HasSubstr("`p*` drained until "), HasSubstr("  pi (server "), HasSubstr(" is drained\n")));
  EXPECT_THAT(StatusLine(), AllOf(HasSubstr("drained by "), HasSubstr(": new fan"), HasSubstr("held: `p*`")));
  Subprocess tune = Start({"tune", "--model", SmallModel(), "--tracker", socket_, "--key", "pi"}, "tune");
  EXPECT_TRUE(Soon([&] { return test::ReadAll(File("tune.err")).find("new fan; place 1") != std::string::npos; }, 60))
      << test::ReadAll(File("tune.err"));
  tune.Kill();
  tracker_->Kill(SIGKILL);
  tracker_.reset();
  StartTracker();
  EXPECT_TRUE(Soon([&] { return StatusLine().find("new fan\n") != std::string::npos; }, 30)) << StatusLine();
  EXPECT_TRUE(Soon([&] { return StatusLine().find(" drained ") != std::string::npos; }, 30)) << StatusLine();
  const CliResult ended = Ask({"undrain", "p*"});
  EXPECT_THAT(ended.out, HasSubstr("`p*` back in service"));
  EXPECT_TRUE(Soon([&] { return StatusLine().find(" free ") != std::string::npos; }, 30)) << StatusLine();
  EXPECT_THAT(StatusLine(), Not(HasSubstr("held:")));
}

TEST_F(TrackerCommands, ALeaseIsReleasedAndALockEndsTheNext) {
  Subprocess tune =
      Start({"tune", "--model", SmallModel(), "--trials", "1000", "--tracker", socket_, "--key", "pi"}, "tune");
  const auto busy = [&] { return StatusLine().find(" busy ") != std::string::npos; };
  ASSERT_TRUE(Soon(busy, 60)) << StatusLine();
  const Json status = Json::Parse(Ask({"status", "--json"}).out).value();
  const std::string lease = *(*status["devices"].As<Json::Array>())[0]["lease"].As<std::string>();
  const CliResult released = Ask({"release", lease});
  EXPECT_EQ(released.code, 0) << released.Text();
  EXPECT_THAT(released.out, AllOf(HasSubstr("pi (server "), HasSubstr(" taken from "), HasSubstr("@")));
  ASSERT_TRUE(Soon(busy, 60)) << "the client asks again, and nobody else waits";
  const CliResult again = Ask({"release", lease});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, HasSubstr("error: no lease begins with `" + lease + "`"));
  const CliResult locked = Ask({"lock", "pi"});
  EXPECT_THAT(locked.out, AllOf(HasSubstr("`pi` locked\n"), HasSubstr(" is locked"), HasSubstr(" has lost it")));
  EXPECT_FALSE(busy());
  tune.Kill();
}

TEST_F(TrackerCommands, WrongOnesAreRefusedInOneLine) {
  const auto expect_error = [&](std::vector<std::string> arguments, int code, const std::string& text) {
    const CliResult result = Ask(std::move(arguments));
    EXPECT_EQ(result.code, code) << result.Text();
    EXPECT_THAT(result.err, HasSubstr("error: " + text));
    EXPECT_THAT(result.out, IsEmpty());
  };
  expect_error({"drain", "pi", "--for", "2"}, 2, "--for 2 is no duration");
  expect_error({"drain", "pi", "--for", "-2h"}, 2, "--for -2h is no duration");
  expect_error({"lock", "pi", "--for", "4000d"}, 2, "--for 4000d is no duration");
  expect_error({"drain", "a b"}, 2, "a pattern has");
  expect_error({"drain", "pi", "--note", std::string(300, 'x')}, 2, "--note has 300 bytes");
  expect_error({"drain", "po"}, 1, "no device matches `po`; did you mean `pi`?");
  expect_error({"undrain", "pi"}, 1, "no drain or lock has the pattern `pi`");
  expect_error({"release", "77"}, 1, "no lease begins with `77`");
  EXPECT_THAT(StatusLine(), HasSubstr(" free "));
  const CliResult nobody = RunCommand({"drain", "pi", "--tracker", File("nobody")});
  EXPECT_EQ(nobody.code, 1);
  EXPECT_THAT(nobody.err, HasSubstr("error: no tracker answers at ipc://"));
}

TEST_F(TrackerCommands, AWatchPrintsChangesAndOutlivesTheTracker) {
  Subprocess watch = StartCommand({"status", "--watch", "--tracker", socket_}, "watch");
  const auto count = [&](const std::string& word) {
    const std::string out = test::ReadAll(File("watch.out"));
    int n = 0;
    for (size_t at = out.find(word); at != std::string::npos; at = out.find(word, at + 1)) ++n;
    return n;
  };
  ASSERT_TRUE(Soon([&] { return count(" free ") == 1; }, 30));
  sleep(3);
  EXPECT_EQ(count("--- "), 1) << "nothing has changed";
  Ask({"drain", "pi"});
  EXPECT_TRUE(Soon([&] { return count(" drained ") > 0; }, 10)) << test::ReadAll(File("watch.out"));
  tracker_->Kill(SIGKILL);
  tracker_.reset();
  EXPECT_TRUE(Soon([&] { return count("no tracker answers at ") == 1; }, 20));
  StartTracker();
  EXPECT_TRUE(Soon([&] { return count("epoch 2") > 0; }, 20));
  kill(watch.pid(), SIGINT);
  const CliResult ended = Finish(watch, "watch", 10);
  EXPECT_EQ(ended.code, 0) << ended.Text();
  EXPECT_THAT(ended.err, IsEmpty());
}

}  // namespace
}  // namespace autotune
