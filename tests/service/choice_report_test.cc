// What `tune` prints about the final choice and the end of the search, on results that the tests make up.
#include "service/choice_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/text.h"
#include "service/tune_events.h"
#include "support/rng.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;

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
  EXPECT_EQ(ChoiceText(chosen), kHeadline + kFasterLine +
                                    "  1 thread:   2.000 ms untuned, 1.990 ms tuned: undecided (95 %: 0.990 to 1.020)\n"
                                    "2 of 3 tasks run tuned schedules; chosen in 12 s\n");
}

TEST(ChoiceText, AGpuHasNoNumberOfThreads) {
  ChosenNetwork chosen = MakeChosen(0, 3);
  NetworkComparison there = kSlower;
  there.threads = 0;
  chosen.choice.comparisons = {there};
  chosen.refusal = RefusedChange{.kind = ChangeKind::kLoss, .against_default = true, .at = there};
  EXPECT_EQ(ChoiceText(chosen),
            kHeadline +
                "  the GPU:  2.000 ms untuned, 2.200 ms tuned: 0.909 times as fast (95 %: 0.870 to 0.952)\n"
                "the network keeps its default schedules; the new ones are slower on the GPU: 0.870 to 0.952 "
                "times as fast as the default ones, 0.909 in the median (12 s of comparisons)\n");
}

TEST(ChoiceText, TheDefaultsWonTheComparison) {
  ChosenNetwork chosen = MakeChosen(0, 3);
  chosen.choice.comparisons = {kFaster, kSlower};
  chosen.refusal = RefusedChange{.kind = ChangeKind::kLoss, .against_default = true, .at = kSlower};
  EXPECT_EQ(ChoiceText(chosen),
            kHeadline + kFasterLine +
                "  1 thread:   2.000 ms untuned, 2.200 ms tuned: 0.909 times as fast (95 %: 0.870 to 0.952)\n"
                "the network keeps its default schedules; the new ones are slower at 1 thread: 0.870 to 0.952 times as "
                "fast as the default ones, 0.909 in the median (12 s of comparisons)\n");
}

TEST(ChoiceText, AnUndecidedComparisonIsCalledSo) {
  ChosenNetwork chosen = MakeChosen(0, 3);
  chosen.refusal = RefusedChange{.kind = ChangeKind::kUndecided, .against_default = true, .at = kEven};
  EXPECT_EQ(ChoiceText(chosen),
            "the network keeps its default schedules; undecided at 1 thread: 0.990 to 1.020 times as fast as the "
            "default ones, 1.005 in the median (12 s of comparisons)\n");
  chosen.refusal->kind = ChangeKind::kEven;
  EXPECT_EQ(ChoiceText(chosen),
            "the network keeps its default schedules; the new ones are as fast as the default ones, within 1 % (12 s "
            "of comparisons)\n");
}

TEST(ChoiceText, TheDefaultsReplaceAnEarlierChoice) {
  ChosenNetwork chosen = MakeChosen(0, 3);
  chosen.refusal =
      RefusedChange{.kind = ChangeKind::kLoss, .of_previous = true, .against_default = true, .at = kSlower};
  EXPECT_EQ(
      ChoiceText(chosen),
      "the network goes back to its default schedules; those chosen before are slower at 1 thread: 0.870 to 0.952 "
      "times as fast as the default ones, 0.909 in the median (12 s of comparisons)\n");
}

TEST(ChoiceText, NoTunedScheduleReachedTheComparison) {
  EXPECT_EQ(
      ChoiceText(MakeChosen(0, 3)),
      "the network keeps its default schedules; in the network, no other schedule of a task is faster for sure (12 "
      "s of comparisons)\n");
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
  EXPECT_EQ(
      ChoiceText(chosen),
      kHeadline + kFasterLine +
          "the schedules chosen before stay; in the network, no other schedule of a task is faster for sure (12 s "
          "of comparisons)\n");
  chosen.refusal = RefusedChange{.kind = ChangeKind::kUndecided, .at = kEven};
  EXPECT_THAT(ChoiceText(chosen), HasSubstr("before stay; undecided at 1 thread: 0.990 to 1.020 times as fast as those "
                                            "chosen before, 1.005 in the median (12 s of comparisons)\n"));
}

// Decides over random intervals of a first choice, and checks the sentences against the intervals.
TEST(ChoiceText, NoSentenceContradictsTheIntervals) {
  Rng rng(3);
  auto random = [&](double most) { return most * static_cast<double>(rng.Below(10'001)) / 10'000; };
  for (int i = 0; i < 5'000; ++i) {
    std::vector<NetworkComparison> drawn;
    for (int threads : {2, 1}) {
      const double width = rng.Below(2) ? 0.004 : 0.2, ratio = 0.95 + random(0.1);
      drawn.push_back({.threads = threads,
                       .default_seconds = 1e-3,
                       .ratio = ratio,
                       .ratio_low = ratio - random(width),
                       .ratio_high = ratio + random(width)});
    }
    auto compare = [&](const Variants&, const Variants&) -> Result<std::vector<NetworkComparison>> { return drawn; };
    const NetworkDecision decision = DecideVariants({0, 0, 0}, std::nullopt, {1, 1, 1}, compare).value();
    ChosenNetwork chosen = MakeChosen(decision.chosen == Variants{0, 0, 0} ? 0 : 3, 3);
    chosen.choice.comparisons = decision.comparisons;
    chosen.refusal = decision.refusal;
    const std::string text = ChoiceText(chosen);
    auto says = [&](const std::string& words) { return text.find(words) != std::string::npos; };
    bool gains = false, losses = false, doubts = false, within = true;
    for (const NetworkComparison& c : drawn) {
      const std::string threads = CountText(c.threads, "thread");
      const bool gain = c.ratio_high<1, loss = c.ratio_low> 1;
      const bool wide = !gain && !loss && c.ratio_high - c.ratio_low > 0.01;
      gains |= gain, losses |= loss, doubts |= wide && c.ratio > 1;
      within &= c.ratio_low > 0.99 && c.ratio_high < 1.01;
      if (says("slower at " + threads)) {
        EXPECT_TRUE(loss) << text;
      }
      if (says("undecided at " + threads)) {
        EXPECT_TRUE(wide) << text;
      }
    }
    EXPECT_EQ(says("slower at"), losses) << text;
    EXPECT_EQ(says("keeps its default"), !says("3 of 3 tasks run tuned schedules")) << text;
    EXPECT_EQ(says("3 of 3 tasks run tuned schedules"), gains && !losses && !doubts) << text;
    if (says("as fast as the default ones, within 1 %")) {
      EXPECT_TRUE(within) << text;
    }
    EXPECT_EQ(says("as fast as the default ones, within"), says("within 1 %")) << text;
    EXPECT_FALSE(says("faster for sure")) << text;
  }
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
}  // namespace autotune
