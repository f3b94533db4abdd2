// Parts of a run are killed at random moments, also during its start. Ten seconds later none of the processes that they
// started may be left, whatever their parent is by then.
#include <signal.h>
#include <sys/wait.h>

#include "support/rng.h"
#include "tests/draws.h"
#include "tests/tools/cli.h"

namespace autotune {
namespace {

using test::Process;
using test::ReadAll;
using test::Soon;

constexpr int kSeconds = 10;

class Orphans : public test::CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    setenv("AUTOTUNE_TEST_RUN", folder_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("AUTOTUNE_TEST_RUN");
    CliTest::TearDown();
  }

  // Returns all processes of this test's runs. They inherit a mark in their environment, which stays if the parent
  // changes.
  std::vector<Process> Marked() const {
    std::vector<Process> marked;
    for (const auto& [pid, process] : test::AllProcesses()) {
      std::string environment = ReadAll("/proc/" + std::to_string(pid) + "/environ");
      if (environment.find("AUTOTUNE_TEST_RUN=" + folder_) != std::string::npos) marked.push_back(process);
    }
    return marked;
  }
  std::vector<Process> Marked(const std::string& word, const std::string& but) const {
    std::vector<Process> chosen;
    for (const Process& process : Marked()) {
      if (process.Is(word) && (but.empty() || !process.Is(but))) chosen.push_back(process);
    }
    return chosen;
  }

  // Runs a tuner twice, at first during its start. Kills a process whose command line contains `word` and not `but`,
  // and a moment later the tuner, and expects that no process is left.
  void KillAtRandom(uint64_t number, const std::string& word, const std::string& but = "") {
    Rng rng(test::DrawSeed() * 4 + number);
    for (int round = 0; round < (test::DrawsAll() ? 6 : 2); ++round) {
      Subprocess run = Start({"--model", SmallModel(), "--trials", "100000", "--search", "random", "--db",
                              File(std::to_string(round) + ".db")},
                             "run");
      usleep(static_cast<useconds_t>(rng.Below(round == 0 ? 200000 : 1500000)));
      std::vector<Process> chosen;
      ASSERT_TRUE(Soon([&] { return !(chosen = Marked(word, but)).empty() || run.Poll(); }));
      ASSERT_FALSE(run.Poll()) << run.Poll()->Text() << "\n" << ReadAll(File("run.err"));
      const Process& victim = chosen[static_cast<size_t>(rng.Below(static_cast<int64_t>(chosen.size())))];
      std::vector<Process> parts = test::DescendantsOf(victim.pid);
      kill(victim.pid, SIGKILL);
      for (const Process& part : parts) {
        EXPECT_TRUE(Soon([&] { return !test::IsAlive(part); }, kSeconds)) << "left behind: " << part.command;
      }
      usleep(static_cast<useconds_t>(rng.Below(300000)));
      kill(run.pid(), SIGKILL);
      ASSERT_TRUE(run.Wait(kSeconds * 1000));
      EXPECT_TRUE(Soon([&] { return Marked().empty(); }, kSeconds)) << "left behind: " << Marked()[0].command;
    }
  }
};

TEST_F(Orphans, OfTheTuner) { KillAtRandom(1, "--trials"); }
TEST_F(Orphans, OfTheDeviceServer) { KillAtRandom(2, "rpc_server", "--runner"); }
TEST_F(Orphans, OfARunner) { KillAtRandom(3, "--runner"); }
TEST_F(Orphans, OfABuildWorker) { KillAtRandom(4, "--build-worker"); }

// The check notices a process that does not end with its parent.
TEST_F(Orphans, AreNoticed) {
  auto parent = Subprocess::Spawn({.argv = {"/bin/sh", "-c", "setsid sleep 100 & sleep 100"}});
  ASSERT_TRUE(parent.ok());
  // Both run, and the first one has left the group of its parent, which is killed.
  const auto both_sleep = [&] {
    const std::vector<Process> sleeping = Marked("sleep", "sh");
    return sleeping.size() == 2 &&
           std::ranges::all_of(sleeping, [](const Process& process) { return process.command.starts_with("sleep "); });
  };
  ASSERT_TRUE(Soon(both_sleep));
  parent->Kill();
  ASSERT_TRUE(parent->Wait(kSeconds * 1000));
  ASSERT_TRUE(Soon([&] { return Marked().size() == 1; }));
  kill(Marked()[0].pid, SIGKILL);
}

// A command ends with the process that started it.
TEST_F(Orphans, ACommandEndsWithItsParent) {
  pid_t middle = fork();
  if (middle == 0) {
    Subprocess run = Start({"--model", SmallModel(), "--trials", "100000", "--search", "random"}, "run");
    pause();
  }
  ASSERT_TRUE(Soon([&] { return !Marked("--trials", "").empty(); }));
  kill(middle, SIGKILL);
  EXPECT_EQ(waitpid(middle, nullptr, 0), middle);
  EXPECT_TRUE(Soon([&] { return Marked().empty(); }, kSeconds)) << "left behind: " << Marked()[0].command;
}

}  // namespace
}  // namespace autotune
