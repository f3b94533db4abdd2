// Each test kills one kind of process of a tuning run: the tuner, the device's server, runners, or build workers.
// Nothing hangs, no reported trial is lost, and no process stays behind.
#include <gmock/gmock.h>
#include <signal.h>

#include "records/open.h"
#include "tests/tools/cli.h"

namespace autotune {
namespace {

using test::CliResult;
using test::DescendantsOf;
using test::EventsOf;
using test::NameOf;
using test::Process;
using test::ReadAll;
using test::Soon;
using test::TrialsOf;
using ::testing::HasSubstr;

constexpr int kTrials = 24;  // more than the tasks of the network, so that a run has several rounds

class Kill : public test::CliTest {
 protected:
  // Random search, so that only the farm, the workers and the database take time.
  std::vector<std::string> Command() const {
    return {"--model", SmallModel(), "--trials", std::to_string(kTrials), "--search", "random", "--db", db_, "--json"};
  }

  int64_t TrialsSeen(const std::string& name) { return test::TrialsReported(ReadAll(File(name + ".out"))); }
  // Waits until `more` further trials are reported. Returns false if the run ends.
  bool Progresses(Subprocess& run, const std::string& name, int more = 1) {
    int64_t target = TrialsSeen(name) + more;
    return Soon([&] { return TrialsSeen(name) >= target || run.Poll(); }) && !run.Poll();
  }

  void ExpectFinished(const CliResult& result) {
    ASSERT_EQ(result.code, 0) << result.Text();
    std::vector<Json> events = EventsOf(result.out);
    ASSERT_FALSE(events.empty());
    EXPECT_EQ(NameOf(events.back()), "saved");
    EXPECT_EQ(TrialsOf(test::LastOf(events, "end")), kTrials);
    ExpectIntact(kTrials);
  }
  // Expects an undamaged database with `at_least` to `at_most` trials.
  void ExpectIntact(int64_t at_least, int64_t at_most = kTrials) {
    auto store = OpenStore(db_);
    ASSERT_TRUE(store.ok()) << store.error().Text();
    Status check = (*store)->Check();
    EXPECT_TRUE(check.ok()) << check.error().Text();
    int64_t trials = (*store)->Count({.trials_only = true}).value();
    EXPECT_GE(trials, at_least);
    EXPECT_LE(trials, at_most);
  }
  void ExpectAllGone(const std::vector<Process>& processes) {
    for (const Process& process : processes)
      EXPECT_TRUE(Soon([&] { return !IsAlive(process); }, 30))
          << process.pid << " is still running: " << process.command;
  }
};

// Returns the processes of a run whose command lines contain `word` and not `but`.
std::vector<Process> PartsOf(pid_t run, const std::string& word, const std::string& but = "") {
  std::vector<Process> parts;
  for (const Process& process : DescendantsOf(run)) {
    if (process.Is(word) && (but.empty() || !process.Is(but))) parts.push_back(process);
  }
  return parts;
}

TEST_F(Kill, TheTuner) {
  Subprocess run = Start(Command(), "first");
  ASSERT_TRUE(Progresses(run, "first", 2)) << ReadAll(File("first.err"));
  std::vector<Process> parts = DescendantsOf(run.pid());
  EXPECT_FALSE(PartsOf(run.pid(), "rpc_server", "--runner").empty());
  EXPECT_FALSE(PartsOf(run.pid(), "--runner").empty());
  EXPECT_FALSE(PartsOf(run.pid(), "--build-worker").empty());
  run.Kill();
  ASSERT_TRUE(run.Wait(30000));
  EXPECT_EQ(run.Poll()->signal, SIGKILL);
  int64_t shown = TrialsSeen("first");
  ASSERT_LT(shown, kTrials) << "the run had finished before it was killed";
  ExpectAllGone(parts);
  ExpectIntact(shown);

  Subprocess again = Start(Command(), "second");
  CliResult result = Finish(again, "second");
  ExpectFinished(result);
  // The second run continued after the trials of the first.
  for (const Json& event : EventsOf(result.out)) {
    if (NameOf(event) == "round") {
      EXPECT_GT(TrialsOf(event), shown);
    }
  }
}

TEST_F(Kill, TheDeviceServer) {
  Subprocess run = Start(Command(), "run");
  ASSERT_TRUE(Progresses(run, "run"));
  std::vector<Process> server = PartsOf(run.pid(), "rpc_server", "--runner");
  std::vector<Process> runners = PartsOf(run.pid(), "--runner");
  ASSERT_EQ(server.size(), 1u);
  kill(server[0].pid, SIGKILL);
  ExpectAllGone(server);
  ExpectAllGone(runners);
  EXPECT_TRUE(Progresses(run, "run", 2)) << "the run made no progress\n" << ReadAll(File("run.err"));
  ExpectFinished(Finish(run, "run"));
}

TEST_F(Kill, TheRunners) {
  Subprocess run = Start(Command(), "run");
  ASSERT_TRUE(Progresses(run, "run"));
  std::vector<Process> runners = PartsOf(run.pid(), "--runner");
  ASSERT_FALSE(runners.empty());
  for (const Process& runner : runners) kill(runner.pid, SIGKILL);
  ExpectAllGone(runners);
  EXPECT_TRUE(Progresses(run, "run", 2)) << "the run made no progress\n" << ReadAll(File("run.err"));
  ExpectFinished(Finish(run, "run"));
}

TEST_F(Kill, TheBuildWorkers) {
  Subprocess run = Start(Command(), "run");
  ASSERT_TRUE(Progresses(run, "run"));
  std::vector<Process> workers = PartsOf(run.pid(), "--build-worker");
  ASSERT_FALSE(workers.empty());
  for (const Process& worker : workers) kill(worker.pid, SIGKILL);
  ExpectAllGone(workers);
  EXPECT_TRUE(Progresses(run, "run", 2)) << "the run made no progress\n" << ReadAll(File("run.err"));
  ExpectFinished(Finish(run, "run"));
}

TEST_F(Kill, InterruptedOnceSavesAndSaysHowToGoOn) {
  Subprocess run = Start(Command(), "first");
  ASSERT_TRUE(Progresses(run, "first"));
  std::vector<Process> parts = DescendantsOf(run.pid());
  kill(run.pid(), SIGINT);
  CliResult result = Finish(run, "first");
  EXPECT_EQ(result.code, 130) << result.Text();
  for (const std::string& word : {"autotune --model " + SmallModel(), " --trials " + std::to_string(kTrials),
                                  " --db " + db_, std::string(" --search random")})
    EXPECT_THAT(result.err, HasSubstr(word));
  ExpectAllGone(parts);
  int64_t saved = TrialsSeen("first");
  ExpectIntact(saved, saved);  // exactly the reported trials
  Subprocess again = Start(Command(), "second");
  ExpectFinished(Finish(again, "second"));
}

TEST_F(Kill, InterruptedTwiceSaysWhatIsLostAndKept) {
  Subprocess run = Start(Command(), "first");
  ASSERT_TRUE(Progresses(run, "first"));
  std::vector<Process> parts = DescendantsOf(run.pid());
  for (int signal : {SIGSTOP, SIGINT, SIGTERM, SIGCONT}) kill(run.pid(), signal);  // both are there before it ends
  CliResult result = Finish(run, "first");
  EXPECT_EQ(result.code, 130) << result.Text();
  EXPECT_THAT(result.err, HasSubstr("ended at once: the results of the running batch are lost"));
  EXPECT_THAT(result.err, HasSubstr("Go on with:\n  autotune --model " + SmallModel()));
  EXPECT_THAT(result.err, ::testing::Not(HasSubstr("interrupted; ")));
  ExpectAllGone(parts);
  const int64_t seen = TrialsSeen("first");
  ExpectIntact(seen, kTrials);
  Subprocess again = Start(Command(), "second");
  ExpectFinished(Finish(again, "second"));
}

// --fresh begins another run. Later commands without --fresh continue that run, not the older one.
TEST_F(Kill, AFreshRunIsGoneOnWithToo) {
  constexpr int kFew = 16;  // one round of trials
  std::vector<std::string> command = {"--model", SmallModel(), "--trials", std::to_string(kFew), "--json"};
  auto interrupted = [&](std::vector<std::string> arguments, const std::string& name) {
    Subprocess run = Start(std::move(arguments), name);
    EXPECT_TRUE(Progresses(run, name));
    kill(run.pid(), SIGINT);
    CliResult result = Finish(run, name);
    EXPECT_EQ(result.code, 130) << result.Text();
    EXPECT_THAT(result.err, ::testing::Not(HasSubstr("--fresh"))) << "the suggested command must not begin another run";
    return TrialsSeen(name);
  };
  auto trials = [&] { return OpenStore(db_).value()->Count({.trials_only = true}).value(); };
  int64_t first = interrupted(command, "first");
  std::vector<std::string> fresh_command = command;
  fresh_command.push_back("--fresh");
  int64_t fresh = interrupted(fresh_command, "fresh");
  ASSERT_LT(first, kFew);
  ASSERT_LT(fresh, kFew);
  EXPECT_EQ(trials(), first + fresh);

  Subprocess again = Start(command, "again");
  CliResult rest = Finish(again, "again");
  ASSERT_EQ(rest.code, 0) << rest.Text();
  EXPECT_EQ(TrialsOf(test::LastOf(EventsOf(rest.out), "end")), kFew);
  EXPECT_EQ(trials(), first + kFew) << "the command must continue the fresh run";
}

}  // namespace
}  // namespace autotune
