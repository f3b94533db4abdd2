// The build workers have a compiler bug: a lowering pass makes a mistake in most candidates (lower/miscompile.h). Each
// of these candidates gives a wrong answer, none becomes best, and the report agrees with the database.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "lower/lower.h"
#include "lower/miscompile.h"
#include "records/open.h"
#include "schedule/replay.h"
#include "tests/tools/cli.h"
#include "tests/tuner/programs.h"
#include "tracker/local_farm.h"
#include "tuner/farm_measurer.h"
#include "tuner/tune.h"

namespace autotune {
namespace {

using test::Dense;
using test::MakeTask;

constexpr int kPercent = 60;

// Returns the mistake that the workers made in a candidate. The mistake depends on the program's text, so the program
// gets the name that the measurer gives it.
std::optional<Bug> MistakeIn(const Record& record) {
  PrimFunc func = ParsePrimFunc(record.func).value();
  func.name = "kernel";
  func = Replay(func, ParseTrace(record.trace).value()).value().func();
  std::optional<Miscompile> miscompile = PlanMiscompile(func, kPercent);
  if (!miscompile) return std::nullopt;
  bool lowered = Lower(func, Target::Parse(record.target).value(), {}, &*miscompile).ok();
  return lowered && miscompile->applied ? std::optional(miscompile->bug) : std::nullopt;
}

class Miscompiles : public test::CliTest {
 protected:
  // Tunes one task with real workers, a real farm and a database file, and reads the records from the file.
  void TuneWith(const std::vector<std::string>& environment, int trials) {
    std::vector<std::string> command = {"env"};
    command.insert(command.end(), environment.begin(), environment.end());
    command.insert(command.end(), {test::kTools + "/autotune", "--build-worker"});
    auto workers = MakeBuildWorkers({.workers = 2, .command = command});
    ASSERT_TRUE(workers.ok()) << workers.error().Text();
    auto farm = LocalFarm::Start();
    ASSERT_TRUE(farm.ok()) << farm.error().Text();
    auto measurer = MakeFarmMeasurer(**workers, {.tracker = (*farm)->tracker(), .key = (*farm)->key()});
    ASSERT_TRUE(measurer.ok()) << measurer.error().Text();
    TuneOptions options{.trials = trials, .seed = 5, .search = SearchKind::kRandom, .run = "r", .confirm = false};
    options.measure = {.repeats = 2, .min_repeat_ms = 1};
    {
      auto store = OpenStore(db_);
      ASSERT_TRUE(store.ok()) << store.error().Text();
      auto tuned = Tune(tasks_, target_, options, **store, **measurer);
      ASSERT_TRUE(tuned.ok()) << tuned.error().Text();
      report_ = std::move(*tuned);
    }
    store_ = OpenStore(db_, {.create = false}).value();
    records_ = store_->Scan({}, 0, 1000).value().records;
    ExpectExactAccounts();
  }

  // Expects that the report and the database agree for every status.
  void ExpectExactAccounts() {
    int trials = 0, failed = 0;
    for (int i = 0; i <= static_cast<int>(TrialStatus::kCutOff); ++i) {
      auto status = static_cast<TrialStatus>(i);
      int64_t stored = store_->Count({.status = status}).value();
      if (WasExecuted(status)) trials += static_cast<int>(stored);
      if (status == TrialStatus::kOk) continue;
      EXPECT_EQ(report_.tasks[0].failures[status], stored) << ToText(status);
      failed += static_cast<int>(stored);
    }
    EXPECT_EQ(report_.trials, trials);
    EXPECT_EQ(report_.tasks[0].trials, trials);
    EXPECT_EQ(report_.records, static_cast<int>(records_.size()));
    EXPECT_EQ(report_.records, failed + store_->Count({.status = TrialStatus::kOk}).value());
  }

  std::vector<TuneTask> tasks_ = {MakeTask("dense", Dense(48, 96, 64))};
  Target target_ = Target::Parse("cpu").value();
  TuneReport report_;
  std::unique_ptr<RecordStore> store_;
  std::vector<Record> records_;
};

TEST_F(Miscompiles, AreWrongAnswersAndNeverBest) {
  ASSERT_NO_FATAL_FAILURE(TuneWith({"AUTOTUNE_MISCOMPILE=" + std::to_string(kPercent)}, 60));
  std::map<Bug, int> caught;
  // The traces of wrong candidates, and the alternatives and traces of right ones. A right candidate has two records if
  // it was measured again in the machine's usual state.
  std::set<std::string> wrong, right;
  int ran = 0;
  for (const Record& record : records_) {
    std::optional<Bug> bug = MistakeIn(record);
    EXPECT_EQ(IsRanked(record), record.status == TrialStatus::kOk);
    // A candidate that was rejected, for example for spills, never ran.
    if (bug && record.status == TrialStatus::kRejected) continue;
    if (bug) {
      wrong.insert(record.trace);
      ++caught[*bug];
      EXPECT_EQ(record.status, TrialStatus::kWrongAnswer) << ToText(*bug) << ", " << record.error << " for\n"
                                                          << record.trace;
    } else {
      EXPECT_TRUE(record.status == TrialStatus::kOk || record.status == TrialStatus::kRejected ||
                  record.status == TrialStatus::kCutOff)
          << record.error;
      if (record.status == TrialStatus::kOk) right.insert(record.alternative + record.trace);
      ran += WasExecuted(record.status);
    }
  }
  for (Bug bug : {Bug::kStartsAtOne, Bug::kLosesLastIteration, Bug::kLosesAnUpdate}) {
    std::printf("%d times: %s\n", caught[bug], std::string(ToText(bug)).c_str());
    EXPECT_GE(caught[bug], 2) << ToText(bug);
  }
  EXPECT_GE(ran, 10);
  EXPECT_EQ(report_.tasks[0].failures[TrialStatus::kWrongAnswer], static_cast<int>(wrong.size()));

  const std::vector<Record> top = store_->Top(tasks_[0].hash.Hex(), target_.Text(), 1000).value();
  EXPECT_EQ(top.size(), right.size());
  for (const Record& record : top) EXPECT_FALSE(wrong.count(record.trace)) << record.trace;
  ASSERT_FALSE(top.empty());
  EXPECT_EQ(top[0].trace, report_.tasks[0].best_trace);
}

// Without the environment variable, no candidate is wrong.
TEST_F(Miscompiles, NothingIsWrongWithoutThem) {
  ASSERT_NO_FATAL_FAILURE(TuneWith({"-u", "AUTOTUNE_MISCOMPILE"}, 16));
  int planned = 0;
  for (const Record& record : records_) {
    EXPECT_TRUE(record.status == TrialStatus::kOk || record.status == TrialStatus::kRejected ||
                record.status == TrialStatus::kCutOff)
        << record.error;
    planned += MistakeIn(record).has_value();
  }
  EXPECT_GE(planned, 2) << "too few candidates would have been miscompiled";
  EXPECT_GE(store_->Count({.trials_only = true}).value(), 10);
}

}  // namespace
}  // namespace autotune
