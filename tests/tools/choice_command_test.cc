// The stored choice for a network as users see it: `compile --schedules` and `records choice`.
#include <gmock/gmock.h>

#include "records/choice.h"
#include "records/open.h"
#include "support/hash.h"
#include "tests/tools/cli.h"

namespace autotune {
namespace {

using test::CliResult;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ChoiceCommand : public test::CliTest {
 protected:
  static constexpr char kOperator[] = "matmul:64,64,64";

  CliResult Compile(const std::vector<std::string>& more) {
    std::vector<std::string> all = {"compile", "--op", kOperator, "-o", File("m.tar")};
    all.insert(all.end(), more.begin(), more.end());
    return Run(all);
  }
  // Tunes the operator and replaces the choice: the unscheduled program, or the schedule of the best record.
  NetworkChoice StoreChoiceOf(bool tuned) {
    CliResult tune = Run({"tune", "--op", kOperator, "--trials", "6"});
    EXPECT_EQ(tune.code, 0) << tune.Text();
    auto store = OpenStore(db_).value();
    std::vector<NetworkChoice> choices = ListChoices(*store).value();
    EXPECT_EQ(choices.size(), 1u);
    NetworkChoice choice = choices.at(0);
    const Record best = *store->Best(choice.schedules.at(0).task, choice.target).value();
    choice.schedules[0].trace = tuned ? best.trace : "";
    choice.schedules[0].seconds = tuned ? best.cost : 0;
    choice.schedules[0].alternative = best.alternative;
    choice.schedules[0].func_hash = HashBytes128(best.func).Hex();
    choice.comparisons = {{.threads = 2, .default_seconds = 4e-3, .ratio = 0.8, .ratio_low = 0.75, .ratio_high = 0.85}};
    choice.created_at = 1700000000000;
    EXPECT_TRUE(StoreChoice(*store, choice).ok());
    best_ = best.id;
    return choice;
  }

  std::string best_;  // id of the best record
};

TEST_F(ChoiceCommand, CompileTakesTheChosenTheBestOrTheDefaultSchedules) {
  StoreChoiceOf(false);
  const CliResult chosen = Compile({});
  EXPECT_THAT(chosen.Text(), AllOf(HasSubstr("0 of 1 kernel tuned"), HasSubstr("keeps its default schedules")));
  EXPECT_EQ(Compile({"--schedules", "chosen"}).out.substr(0, 30), chosen.out.substr(0, 30));
  EXPECT_THAT(Compile({"--schedules", "best"}).Text(), HasSubstr("1 of 1 kernel tuned"));
  for (const std::vector<std::string>& none : {std::vector<std::string>{"--schedules", "default"}, {"--no-records"}}) {
    const CliResult untuned = Compile(none);
    EXPECT_THAT(untuned.Text(), AllOf(HasSubstr("0 of 1 kernel tuned"), Not(HasSubstr("note:"))));
  }
  EXPECT_EQ(Compile({"--schedules", "fastest"}).code, 2);
  EXPECT_EQ(Compile({"--schedules", "best", "--no-records"}).code, 2);
}

TEST_F(ChoiceCommand, TheChoiceIsShownAndCleared) {
  const NetworkChoice choice = StoreChoiceOf(true);
  const CliResult shown = Run({"records", "choice"});
  EXPECT_EQ(shown.code, 0) << shown.Text();
  EXPECT_THAT(shown.out, AllOf(HasSubstr(choice.model + " (" + choice.network.substr(0, 8) + ") for "),
                               HasSubstr("chosen 2023-11-14 22:13:20 UTC: 1 of 1 task run tuned schedules"),
                               HasSubstr("1.250 times as fast (95 %: 1.176 to 1.333)"), HasSubstr(best_)));
  EXPECT_EQ(Run({"records", "choice", choice.model}).out, shown.out);
  EXPECT_EQ(Run({"records", "choice", choice.network.substr(0, 6)}).out, shown.out);
  const Json json = Json::Parse(Run({"records", "choice", "--json"}).out).value();
  EXPECT_EQ(json, ToJson(choice));
  const CliResult other = Run({"records", "choice", "another", "--clear"});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("no choice for 'another', but for " + choice.model));
  EXPECT_EQ(Run({"records", "choice"}).out, shown.out) << "nothing was cleared";

  const CliResult cleared = Run({"records", "choice", choice.model, "--clear"});
  EXPECT_EQ(cleared.code, 0) << cleared.Text();
  EXPECT_THAT(cleared.out, HasSubstr("cleared the choice for " + choice.model));
  EXPECT_EQ(Run({"records", "choice"}).code, 1);
  EXPECT_THAT(Compile({}).Text(), HasSubstr("1 of 1 kernel tuned")) << "the best record";
}

TEST_F(ChoiceCommand, ClearingOneOfSeveralNeedsItsName) {
  NetworkChoice choice = StoreChoiceOf(false);
  EXPECT_THAT(Run({"records", "choice"}).out, HasSubstr("default schedule"));
  choice.model = "other";
  choice.network = std::string(32, 'f');
  ASSERT_TRUE(StoreChoice(*OpenStore(db_).value(), choice).ok());
  const CliResult refused = Run({"records", "choice", "--clear"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("has 2 choices\nhint: name the network"));
  EXPECT_EQ(Run({"records", "choice", "other", "--clear"}).code, 0);
  EXPECT_EQ(ListChoices(*OpenStore(db_).value()).value().size(), 1u);
}

}  // namespace
}  // namespace autotune
