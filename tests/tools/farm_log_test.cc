// What rpc_tracker and rpc_server tell their operators.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>

#include "support/subprocess.h"
#include "tests/tools/cli.h"
#include "tools/event_log.h"

namespace autotune {
namespace {

using test::CliResult;
using test::Lines;
using test::Soon;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

class FarmLog : public test::CliTest {
 protected:
  // Starts a program of the farm. Its standard error goes to File(log).
  Subprocess Start(std::vector<std::string> argv, const std::string& log) {
    argv[0] = test::kTools + "/" + argv[0];
    UniqueFd null(open("/dev/null", O_WRONLY | O_CLOEXEC));
    UniqueFd err(open(File(log).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    auto started = Subprocess::Spawn({.argv = argv, .fds = {{1, null.get()}, {2, err.get()}}});
    EXPECT_TRUE(started.ok());
    return std::move(*started);
  }
  bool Logs(const std::string& log, const std::string& words) {
    return Soon([&] { return test::ReadAll(File(log)).find(words) != std::string::npos; }, 20);
  }
};

TEST_F(FarmLog, EveryEventIsALineWithItsTime) {
  const std::string socket = File("tracker.ipc");
  Subprocess tracker = Start({"rpc_tracker", "--listen", socket, "--state", File("state")}, "tracker");
  Subprocess server = Start({"rpc_server", "--tracker", socket, "--key", "pi:4"}, "server");
  ASSERT_TRUE(Logs("server", "registered at the tracker at ipc://" + socket + " as `pi:4` (server "));
  ASSERT_TRUE(Logs("tracker", "registered at ipc://"));
  CliResult tuned = Run(
      {"tune", "--op", "matmul:32,32,32", "--trials", "2", "--tracker", socket, "--key", "pi:4", "--db", ":memory:"});
  EXPECT_EQ(tuned.code, 0) << tuned.Text();
  for (const std::string log : {"tracker", "server"}) {
    EXPECT_TRUE(Logs(log, " leased to ")) << log;
    EXPECT_TRUE(Logs(log, " returned by ")) << log;
    for (const std::string& line : Lines(test::ReadAll(File(log))))
      EXPECT_THAT(line, MatchesRegex("[0-9][0-9]:[0-9][0-9]:[0-9][0-9] rpc_" + log + ": .*"));
    EXPECT_THAT(test::ReadAll(File(log)), Not(HasSubstr(" lost by ")));
  }
  server.Kill(SIGTERM);
  EXPECT_TRUE(Logs("tracker", " left\n"));
}

// The shell sends SIGHUP to its background processes when its terminal closes.
TEST_F(FarmLog, TheFarmOutlivesItsTerminal) {
  const std::string socket = File("tracker.ipc");
  Subprocess tracker = Start({"rpc_tracker", "--listen", socket, "--state", File("state")}, "tracker");
  Subprocess server = Start({"rpc_server", "--tracker", socket, "--key", "pi"}, "server");
  ASSERT_TRUE(Logs("tracker", "registered"));
  tracker.Kill(SIGHUP);
  server.Kill(SIGHUP);
  usleep(200000);
  EXPECT_FALSE(tracker.Poll());
  EXPECT_FALSE(server.Poll());
  EXPECT_THAT(Run({"devices", "--tracker", socket}).out, HasSubstr("free"));
}

TEST_F(FarmLog, AKeyNeedsNoQuotes) {
  for (const std::string key : {"a b", "x<script>", "k\nl", "\xc3\xa4"}) {
    Subprocess server = Start({"rpc_server", "--tracker", File("none"), "--key", key}, "refused");
    const auto ended = server.Wait(10000);
    ASSERT_TRUE(ended) << key;
    EXPECT_EQ(ended->code, 2);
    EXPECT_THAT(test::ReadAll(File("refused")), HasSubstr("a key has 1 to 256 letters, digits"));
  }
}

TEST_F(FarmLog, AllProgramsTellTheirVersion) {
  for (const std::string program : {"rpc_server", "rpc_tracker"}) {
    UniqueFd out(open(File("version").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    auto process = Subprocess::Spawn({.argv = {test::kTools + "/" + program, "--version"}, .fds = {{1, out.get()}}});
    ASSERT_TRUE(process.ok());
    const auto ended = process->Wait(10000);
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->code, 0);
    EXPECT_THAT(test::ReadAll(File("version")), ContainsRegex(program + " [0-9.]+\nwire [0-9]+\\.[0-9]+\n"));
  }
}

TEST(EventLog, DropsLinesRatherThanWait) {
  auto pipe = MakePipe();
  ASSERT_TRUE(pipe.ok());
  auto& [reader, writer] = *pipe;
  tools::EventLog log("test", writer.get());
  const int lines = 4000;  // of 100 bytes each: more than the 64 KiB of a pipe
  for (int i = 0; i < lines; ++i) log.Write(std::string(100, 'x'));
  std::string text(1 << 20, '\0');
  text.resize(static_cast<size_t>(read(reader.get(), text.data(), text.size())));
  const auto written = static_cast<int>(Lines(text).size());
  EXPECT_LT(written, lines);
  EXPECT_EQ(text.back(), '\n') << "no line is cut";
  log.Write("next");
  text.resize(1000);
  text.resize(static_cast<size_t>(read(reader.get(), text.data(), text.size())));
  EXPECT_THAT(text, AllOf(HasSubstr("(" + std::to_string(lines - written) + " lines before this one are lost) next")));
  log.Write("last");
  text.resize(1000);
  text.resize(static_cast<size_t>(read(reader.get(), text.data(), text.size())));
  EXPECT_THAT(text, Not(HasSubstr("lost")));
}

}  // namespace
}  // namespace autotune
