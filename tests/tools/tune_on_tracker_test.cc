// `autotune tune --tracker` beside runs on this machine, with the same database, target and number of trials.
#include <gmock/gmock.h>

#include "records/choice.h"
#include "records/open.h"
#include "support/clock.h"
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

// The package follows the choice of an earlier run on this machine. A note says that it ignores newer records.
TEST_F(TuneOnTracker, ANoteNamesRecordsThatAreNewerThanTheChoice) {
  const std::string note = "note: for 1 task the database has newer records than the schedules chosen for this network";
  const std::vector<std::string> output = {"-o", File("net.tar")};
  const CliResult alone = TuneThere(output);
  ASSERT_EQ(alone.code, 0) << alone.Text();
  EXPECT_THAT(alone.out + alone.err, Not(HasSubstr("newer records"))) << "there is no choice yet";

  const CliResult here = TuneHere();
  ASSERT_EQ(here.code, 0) << here.Text();
  DateChoice(1);
  const CliResult there = TuneThere(output);
  ASSERT_EQ(there.code, 0) << there.Text();
  EXPECT_THAT(there.err, HasSubstr(note + "; `autotune tune` without --tracker compares them\n"));
  EXPECT_THAT(Run({"compile", "--op", op_, "-o", File("same.tar")}).err, HasSubstr(note));
  // With --json, standard output has only lines of JSON.
  const CliResult json = TuneThere({"-o", File("net.tar"), "--json"});
  const std::vector<Json> events = EventsOf(json.out);
  ASSERT_GE(events.size(), 2u) << json.Text();
  EXPECT_EQ(NameOf(events.back()), "saved");
  EXPECT_THAT(json.err, HasSubstr(note));

  DateChoice(WallMillis() + 1'000'000);
  const CliResult later = TuneThere(output);
  EXPECT_THAT(later.out + later.err, Not(HasSubstr("newer records"))) << "the choice is newer than all records";
}

}  // namespace
}  // namespace autotune
