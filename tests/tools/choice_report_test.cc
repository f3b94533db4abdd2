// What `tune` prints about the final choice and the end of the search, on results that the tests make up.
#include "tools/autotune/choice_report.h"

#include <gtest/gtest.h>

#include "tools/autotune/tune_events.h"

namespace autotune::tools {
namespace {

// A choice for a network of three tasks.
ChosenNetwork MakeChosen(int tuned_tasks, int tasks_with_records) {
  ChosenNetwork chosen;
  chosen.choice.schedules.resize(3);
  chosen.tuned_tasks = tuned_tasks;
  chosen.tasks_with_records = tasks_with_records;
  chosen.kept_defaults = tuned_tasks == 0;
  chosen.seconds = 12.4;
  return chosen;
}

const NetworkComparison kFaster{
    .threads = 2, .default_seconds = 4e-3, .ratio = 0.8, .ratio_low = 0.75, .ratio_high = 0.85};
const NetworkComparison kEven{
    .threads = 1, .default_seconds = 2e-3, .ratio = 0.995, .ratio_low = 0.98, .ratio_high = 1.01};
const NetworkComparison kSlower{
    .threads = 1, .default_seconds = 2e-3, .ratio = 1.1, .ratio_low = 1.05, .ratio_high = 1.15};

const std::string kHeadline = "the whole network, tuned and untuned in turns:\n";
const std::string kFasterLine =
    "  2 threads:  4.000 ms untuned, 3.200 ms tuned: 1.250 times as fast (95 %: 1.176 to 1.333)\n";

TEST(ChoiceText, TunedSchedulesWereChosen) {
  ChosenNetwork chosen = MakeChosen(2, 3);
  chosen.choice.comparisons = {kFaster, kEven};
  EXPECT_EQ(ChoiceText(chosen),
            kHeadline + kFasterLine +
                "  1 thread:   2.000 ms untuned, 1.990 ms tuned: no significant difference (95 %: 0.990 to 1.020)\n"
                "2 of 3 tasks run tuned schedules; chosen in 12 s\n");
}

TEST(ChoiceText, TheDefaultsWonTheComparison) {
  ChosenNetwork chosen = MakeChosen(0, 3);
  chosen.choice.comparisons = {kFaster, kSlower};
  EXPECT_EQ(ChoiceText(chosen),
            kHeadline + kFasterLine +
                "  1 thread:   2.000 ms untuned, 2.200 ms tuned: 0.909 times as fast (95 %: 0.870 to 0.952)\n"
                "the network keeps its default schedules: no tuned one makes it significantly faster (12 s of "
                "comparisons)\n");
}

TEST(ChoiceText, NoTunedScheduleReachedTheComparison) {
  EXPECT_EQ(ChoiceText(MakeChosen(0, 3)),
            "the network keeps its default schedules: no tuned one makes it significantly faster (12 s of "
            "comparisons)\n");
}

TEST(ChoiceText, ThereWasNothingToCompare) {
  const std::string text = "the network keeps its default schedules: no task has another schedule to compare\n";
  ChosenNetwork chosen = MakeChosen(0, 0);
  EXPECT_EQ(ChoiceText(chosen), text);
  chosen.same_schedules = true;
  EXPECT_EQ(ChoiceText(chosen), text) << "as in an earlier run";
}

TEST(ChoiceText, TheEarlierChoiceStays) {
  ChosenNetwork chosen = MakeChosen(2, 3);
  chosen.kept_previous = true;
  chosen.choice.comparisons = {kFaster};
  EXPECT_EQ(ChoiceText(chosen),
            kHeadline + kFasterLine +
                "the schedules chosen before stay: no new one makes the network significantly faster (12 s of "
                "comparisons)\n");
}

TEST(ChoiceText, TheSameSchedulesAreNotMeasuredAgain) {
  ChosenNetwork chosen = MakeChosen(2, 3);
  chosen.same_schedules = chosen.kept_previous = true;
  chosen.choice.comparisons = {kFaster};  // those of the earlier run
  const std::string end = " of 3 tasks run tuned schedules, which an earlier run chose from the same candidates\n";
  EXPECT_EQ(ChoiceText(chosen), kHeadline + kFasterLine + "2" + end);
  chosen = MakeChosen(0, 3);
  chosen.same_schedules = true;
  EXPECT_EQ(ChoiceText(chosen),
            "the network keeps its default schedules, as an earlier run chose from the same candidates\n");
}

// A report of a run in which some tasks ran out of schedules and others reached the machine's peak.
TuneReport EndedReport(int trials, int exhausted, int at_peak, int open) {
  TuneReport report;
  report.trials = trials;
  report.tasks.resize(static_cast<size_t>(exhausted + at_peak + open));
  for (int i = 0; i < exhausted + at_peak; ++i) {
    TaskReport& task = report.tasks[static_cast<size_t>(i)];
    task.exhausted = i < exhausted;
    task.at_roofline = true;  // also of exhausted tasks, which count once
  }
  return report;
}

// Of a run of 100 trials.
std::string Why(const TuneReport& report) { return WhyEnded(report, {.trials = 100}); }

TEST(WhyEnded, NamesWhatHappenedToTheTasks) {
  const std::string begin = "the search ended after 30 trials: ";
  EXPECT_EQ(Why(EndedReport(30, 1, 0, 0)), begin + "1 task has no other schedule");
  EXPECT_EQ(Why(EndedReport(30, 2, 0, 1)), begin + "2 tasks have no other schedule");
  EXPECT_EQ(Why(EndedReport(30, 0, 1, 0)), begin + "1 task runs at the machine's peak");
  EXPECT_EQ(Why(EndedReport(30, 0, 2, 1)), begin + "2 tasks run at the machine's peak");
  EXPECT_EQ(Why(EndedReport(30, 2, 1, 0)), begin + "2 tasks have no other schedule, 1 task runs at the machine's peak");
  EXPECT_EQ(Why(EndedReport(1, 1, 0, 0)), "the search ended after 1 trial: 1 task has no other schedule");
}

TEST(WhyEnded, SaysNothingIfTheTrialsAreUsedOrNoTaskEnded) {
  EXPECT_EQ(Why(EndedReport(100, 2, 1, 0)), "");
  EXPECT_EQ(Why(EndedReport(30, 0, 0, 3)), "");
}

// The limit of time ended the search, not the tasks that had ended.
TEST(WhyEnded, ALimitOfTimeIsToldFromTasksThatEnded) {
  TuneReport report = EndedReport(30, 1, 1, 1);
  EXPECT_EQ(Why(report),
            "the search ended after 30 trials: 1 task has no other schedule, 1 task runs at the machine's peak");
  report.out_of_time = true;
  EXPECT_EQ(Why(report), "the search ended after 30 trials: it reached its limit of time");
}

}  // namespace
}  // namespace autotune::tools
