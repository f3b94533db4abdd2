// `autotune tune --tracker` beside runs on this machine, with the same database, target and number of trials.
#include <gmock/gmock.h>

#include "records/choice.h"
#include "records/open.h"
#include "service/events.h"
#include "support/clock.h"
#include "support/process_stat.h"
#include "tests/tools/farm.h"

namespace autotune {
namespace {

using test::CliResult;
using test::EventsOf;
using test::NameOf;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TuneOnTracker : public test::FarmTest {
 protected:
  CliResult TuneHere() { return Run(local_); }
  CliResult TuneThere(const std::vector<std::string>& more = {}) {
    std::vector<std::string> command = local_;
    command.insert(command.end(), {"--tracker", socket_, "--key", "pi"});
    command.insert(command.end(), more.begin(), more.end());
    return Run(command);
  }
  // Sets the date of the only stored choice, in Unix milliseconds.
  void DateChoice(int64_t created_at) {
    auto store = OpenStore(db_).value();
    int choices = 0;
    for (const RunState& run : store->Runs().value()) {
      Result<NetworkChoice> choice = FromJson<NetworkChoice>(run.state);
      if (!choice.ok() || choice->network.empty()) continue;  // the state of a tuning run
      ++choices;
      choice->created_at = created_at;
      ASSERT_TRUE(StoreChoice(*store, *choice).ok());
    }
    ASSERT_EQ(choices, 1);
  }

  // A run with a comparison that lasts.
  std::vector<std::string> Choosing() const {
    return {"--model",   SmallModel(), "--trials", "40", "--search", "random",
            "--tracker", socket_,      "--key",    "pi", "--json"};
  }
  // Starts it, and waits until it compares networks.
  Subprocess StartUntilItChooses() {
    Subprocess run = Start(Choosing(), "run");
    const auto chooses = [&] { return test::ReadAll(File("run.out")).find("\"choosing\"") != std::string::npos; };
    EXPECT_TRUE(test::Soon([&] { return chooses() || run.Poll(); })) << test::ReadAll(File("run.err"));
    EXPECT_FALSE(run.Poll());
    return run;
  }
  void ExpectSaved(Subprocess& run) {
    const CliResult result = Finish(run, "run");
    ASSERT_EQ(result.code, 0) << result.Text();
    EXPECT_THAT(result.Text(), Not(HasSubstr("could not be compared")));
    EXPECT_EQ(NameOf(EventsOf(result.out).back()), "saved");
  }

  const std::string op_ = "matmul:24,20,12";
  const std::vector<std::string> local_ = {"--op", op_, "--trials", "4"};
};

// A device has its own run. Each of the two runs resumes by itself.
TEST_F(TuneOnTracker, MeasuresAfterARunOnThisMachine) {
  const auto measured = HasSubstr("\n4 trials in ");
  const auto resumed = HasSubstr("\n4 trials, all measured by earlier runs of this command");
  const CliResult here = TuneHere(), there = TuneThere();
  ASSERT_EQ(here.code, 0) << here.Text();
  ASSERT_EQ(there.code, 0) << there.Text();
  EXPECT_THAT(here.out, AllOf(measured, Not(resumed)));
  EXPECT_THAT(there.out, AllOf(measured, Not(resumed)));
  EXPECT_THAT(TuneThere().out, AllOf(resumed, Not(measured)));
  EXPECT_THAT(TuneHere().out, AllOf(resumed, Not(measured)));
}

// The choice is made by the device, printed, stored, and followed by the package and by `compile`.
TEST_F(TuneOnTracker, TheDeviceMakesTheFinalChoice) {
  const CliResult there = Run({"--op", "conv2d:1,16,16,16;3,3,16,16;pad=1", "--trials", "24", "--tracker", socket_,
                               "--key", "pi", "-o", File("net.tar"), "--json"});
  ASSERT_EQ(there.code, 0) << there.Text();
  const std::vector<Json> events = EventsOf(there.out);
  EXPECT_EQ(NameOf(events.back()), "saved");
  EXPECT_GE(std::ranges::count_if(events, [](const Json& event) { return NameOf(event) == "choosing"; }), 1);
  const auto choice = FromJson<event::Choice>(test::LastOf(events, "end")["choice"]);
  ASSERT_TRUE(choice.ok()) << choice.error().Text();
  EXPECT_TRUE(choice->comparisons.empty() ? choice->kept_defaults : choice->comparisons[0].untuned_ms > 0);
  EXPECT_THAT(there.Text(), Not(HasSubstr("could not be compared")));
  const auto stored = ListChoices(*OpenStore(db_).value()).value();
  ASSERT_EQ(stored.size(), 1u);
  EXPECT_EQ(stored[0].measured_on.device, "pi");
  EXPECT_EQ(stored[0].measured_on.server.size(), 8u);
  EXPECT_EQ(stored[0].measured_on.boot, BootId());
  EXPECT_THAT(Run({"records", "choice"}).out, HasSubstr("on the device `pi`"));
  const auto free = [&] { return Run({"devices", "--tracker", socket_}).out.find("free") != std::string::npos; };
  EXPECT_TRUE(test::Soon(free, 5)) << "the device is given back, and not only when the lease expires, after 10 s";
}

// A note names records that are newer than the choice, until a run compares them.
TEST_F(TuneOnTracker, ANoteNamesRecordsThatAreNewerThanTheChoice) {
  const std::string note =
      "note: for 1 task the database has newer records than the schedules chosen for this network; `autotune tune` "
      "compares them\n";
  const CliResult here = TuneHere();
  ASSERT_EQ(here.code, 0) << here.Text();
  const std::vector<std::string> compile = {"compile", "--op", op_, "-o", File("same.tar")};
  EXPECT_THAT(Run(compile).err, Not(HasSubstr("newer records")));
  DateChoice(1);
  EXPECT_THAT(Run(compile).err, HasSubstr(note));
  DateChoice(WallMillis() + 1'000'000);
  EXPECT_THAT(Run(compile).err, Not(HasSubstr("newer records"))) << "the choice is newer than all records";
}

// The server is killed while networks are compared. A new one goes on.
TEST_F(TuneOnTracker, TheChoiceGoesOnAfterTheServersDeath) {
  Subprocess run = StartUntilItChooses();
  servers_[0].Kill();
  ASSERT_TRUE(servers_[0].Wait(5000));
  StartServer();
  ExpectSaved(run);
}

// A lease goes on without the tracker, so the comparison needs none.
TEST_F(TuneOnTracker, TheChoiceGoesOnWithoutTheTracker) {
  Subprocess run = StartUntilItChooses();
  tracker_->Kill(SIGKILL);
  ASSERT_TRUE(tracker_->Wait(5000));
  ExpectSaved(run);
}

// The twin: without the tuner, nobody compares. The device becomes free, and the same command goes on.
TEST_F(TuneOnTracker, TheChoiceIsMadeByTheNextRunAfterTheTunersDeath) {
  Subprocess run = StartUntilItChooses();
  const std::vector<test::Process> runners = test::DescendantsOf(servers_[0].pid());
  const auto has_ended = [](const test::Process& process) { return !IsAlive(process); };
  run.Kill(SIGKILL);
  ASSERT_TRUE(run.Wait(5000));
  const auto free = [&] { return Run({"devices", "--tracker", socket_}).out.find("free") != std::string::npos; };
  EXPECT_TRUE(test::Soon(free, 30)) << "the lease lasts 10 s after the latest message";
  EXPECT_TRUE(test::Soon([&] { return std::ranges::any_of(runners, has_ended); }, 10)) << "the process of the session";
  EXPECT_THAT(test::ReadAll(File("run.out")), Not(HasSubstr("\"saved\"")));
  Subprocess again = Start(Choosing(), "run");
  ExpectSaved(again);
  const std::vector<Json> events = EventsOf(test::ReadAll(File("run.out")));
  EXPECT_EQ(std::ranges::count_if(events, [](const Json& event) { return NameOf(event) == "trial"; }), 0);
}

}  // namespace
}  // namespace autotune
