// The data of reports and comparisons, and the page that holds it. The programs are never timed here.
#include <gmock/gmock.h>

#include <limits>

#include "records/memory_store.h"
#include "tools/autotune/report/collect.h"
#include "tools/autotune/report/compare.h"
#include "tools/autotune/report/history.h"
#include "tools/autotune/report/page.h"

namespace autotune::tools::report {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

const std::string kConv = std::string(32, 'a'), kPool = std::string(32, 'b');
constexpr char kTarget[] = "llvm -num-cores=2";

Record RecordOf(const std::string& task, const std::string& trace, double cost, TrialStatus status = TrialStatus::kOk) {
  Record record{.id = NewRecordId(), .task = task, .alternative = "direct", .trace = trace, .target = kTarget};
  record.status = status;
  record.cost = cost;
  record.verified = status == TrialStatus::kOk;
  if (!record.verified) record.error = "too\nlarge";
  return record;
}

Report Tasks() {
  Report report;
  report.kernels = {{.task = kConv, .calls = 3}, {.task = kPool, .calls = 1}};
  return report;
}

Report HistoriesOf(const std::vector<Record>& records) {
  std::unique_ptr<RecordStore> store = NewMemoryStore();
  EXPECT_TRUE(store->Append(records).ok());
  Report report = Tasks();
  const Status added = AddHistories(*store, kTarget, report);
  EXPECT_TRUE(added.ok());
  return report;
}

std::vector<std::pair<int64_t, double>> StepsOf(const std::vector<Progress>& progress) {
  std::vector<std::pair<int64_t, double>> steps;
  for (const Progress& step : progress) steps.emplace_back(step.trials, std::round(step.best_us));
  return steps;
}

TEST(ReportHistory, FollowsTheBestTimeOverTrials) {
  const Report report =
      HistoriesOf({RecordOf(kConv, "default", 90e-6), RecordOf(kPool, "default", 10e-6), RecordOf(kConv, "slow", 95e-6),
                   RecordOf(kConv, "", 0, TrialStatus::kRejected), RecordOf(kConv, "good", 60e-6),
                   RecordOf(kConv, "", 0, TrialStatus::kRejected), RecordOf(kConv, "", 1e-3, TrialStatus::kCutOff)});
  const History& conv = *report.kernels[0].history;
  EXPECT_THAT(StepsOf(conv.progress), ElementsAre(Pair(1, 90), Pair(3, 60)));
  EXPECT_EQ(conv.records, 6);
  EXPECT_EQ(conv.trials, 4) << "a rejected candidate never ran";
  EXPECT_THAT(conv.outcomes, UnorderedElementsAre(Pair("ok", 3), Pair("rejected", 2), Pair("cut off", 1)));
  EXPECT_DOUBLE_EQ(*conv.default_us, 90);
  EXPECT_DOUBLE_EQ(*conv.best_us, 60);
  // The network: three calls of one and one of the other, once both have a time; the last trial ends the curve.
  EXPECT_THAT(StepsOf(report.progress), ElementsAre(Pair(2, 280), Pair(4, 190), Pair(5, 190)));
  ASSERT_THAT(report.failures, SizeIs(2));
  EXPECT_EQ(report.failures[0].outcome, "rejected");
  EXPECT_EQ(report.failures[0].count, 2);
  EXPECT_EQ(report.failures[0].first_error, "too\\x0alarge");
}

TEST(ReportHistory, TakesTheTimesOfAConfirmation) {
  Record untuned = RecordOf(kConv, "default", 100e-6), tuned = RecordOf(kConv, "good", 80e-6);
  untuned.confirmation = 1;
  tuned.confirmation = 2;
  const Report report =
      HistoriesOf({RecordOf(kConv, "default", 90e-6), RecordOf(kConv, "good", 40e-6), untuned, tuned});
  const History& conv = *report.kernels[0].history;
  EXPECT_DOUBLE_EQ(*conv.default_us, 100);
  EXPECT_DOUBLE_EQ(*conv.best_us, 80) << "the fastest trial was a lucky one";
  EXPECT_EQ(conv.trials, 2) << "a confirmation is no trial";
  EXPECT_THAT(StepsOf(conv.progress), ElementsAre(Pair(1, 90), Pair(2, 40)));
}

TEST(ReportHistory, GivesADefaultScheduleThatStaysTheBestOneTime) {
  Record again = RecordOf(kConv, "default", 70e-6);
  again.confirmation = 2;
  const History conv = *HistoriesOf({RecordOf(kConv, "default", 90e-6), again}).kernels[0].history;
  EXPECT_DOUBLE_EQ(*conv.default_us, *conv.best_us);
}

TEST(ReportHistory, TakesADisturbedConfirmationForNoBetterTime) {
  Record disturbed = RecordOf(kConv, "default", 270e-6);
  disturbed.confirmation = 1;
  disturbed.disturbed = "others used the cores";
  const std::vector<Record> records = {RecordOf(kConv, "default", 90e-6), disturbed, RecordOf(kConv, "default", 95e-6)};
  EXPECT_DOUBLE_EQ(*HistoriesOf(records).kernels[0].history->default_us, 90);
  EXPECT_DOUBLE_EQ(*HistoriesOf({disturbed}).kernels[0].history->default_us, 270) << "it is all that is known";
}

TEST(ReportHistory, CountsDisturbedTimesOnlyWhereThereAreNoOthers) {
  Record lucky = RecordOf(kConv, "lucky", 10e-6), first = RecordOf(kPool, "default", 30e-6);
  lucky.disturbed = first.disturbed = "others used the cores";
  const Report report = HistoriesOf({RecordOf(kConv, "default", 90e-6), lucky, RecordOf(kConv, "good", 60e-6), first});
  EXPECT_THAT(StepsOf(report.kernels[0].history->progress), ElementsAre(Pair(1, 90), Pair(3, 60)));
  EXPECT_DOUBLE_EQ(*report.kernels[0].history->best_us, 60);
  EXPECT_THAT(StepsOf(report.kernels[1].history->progress), ElementsAre(Pair(1, 30)));
  EXPECT_THAT(StepsOf(report.progress), ElementsAre(Pair(4, 210)));
}

TEST(ReportHistory, IgnoresOtherTargetsAndTasks) {
  Record elsewhere = RecordOf(kConv, "default", 90e-6);
  elsewhere.target = "llvm -num-cores=4";
  const Report report = HistoriesOf({elsewhere, RecordOf(std::string(32, 'c'), "default", 1e-6)});
  EXPECT_FALSE(report.kernels[0].history);
  EXPECT_THAT(report.progress, IsEmpty());
  EXPECT_THAT(report.failures, IsEmpty());
}

Roofline Machine() {
  constexpr double kForever = std::numeric_limits<double>::infinity();
  return {.flops_per_second = 100e9, .copying = {{"L1", 1e3, 100e9}, {"memory", kForever, 10e9}}};
}

TEST(ReportShares, AreThoseOfTheProfile) {
  Report report = Tasks();
  report.kernels[0].flops = 1e6, report.kernels[0].bytes = 1e3;
  report.kernels[0].time = EstimateOf({60e-6});
  report.kernels[1].flops = 1e3, report.kernels[1].bytes = 1e6;
  report.kernels[1].time = EstimateOf({240e-6});
  AddShares(report, Machine());
  ASSERT_EQ(report.kernels[0].task, kPool) << "the slowest comes first";
  const Kernel &pool = report.kernels[0], &conv = report.kernels[1];
  EXPECT_DOUBLE_EQ(*report.kernels_us, 300);
  EXPECT_DOUBLE_EQ(*conv.share, 0.2);
  EXPECT_DOUBLE_EQ(*conv.roof_us, 30) << "three calls";
  EXPECT_DOUBLE_EQ(*conv.roof_share, 0.5);
  EXPECT_EQ(conv.bound, "arithmetic");
  EXPECT_DOUBLE_EQ(*conv.gflops, 50);
  EXPECT_DOUBLE_EQ(*pool.roof_us, 100);
  EXPECT_EQ(pool.bound, "memory");
  ASSERT_THAT(report.ceilings->levels, SizeIs(2));
  EXPECT_FALSE(report.ceilings->levels[1].capacity_bytes) << "memory has no bound that counts";
}

TEST(ReportShares, SmallNumbersHaveTheirOwnPeak) {
  Report report;
  report.kernels.resize(1);
  report.kernels[0].flops = 1e6, report.kernels[0].bytes = 1e3, report.kernels[0].small_products = DType::Int(8);
  report.kernels[0].time = EstimateOf({10e-6});
  Roofline machine = Machine();
  machine.dots = {{DType::Int(8), 400e9}, {DType::BFloat16(), 200e9}};
  AddShares(report, machine);
  EXPECT_DOUBLE_EQ(*report.kernels[0].roof_us, 2.5) << "the peak of f32 would be 10 us, that of bf16 5";
  EXPECT_EQ(report.kernels[0].bound, "arithmetic");
  std::vector<std::pair<std::string, double>> peaks;
  for (const Peak& peak : report.ceilings->peaks) peaks.emplace_back(peak.type, peak.gflops);
  EXPECT_THAT(peaks, ElementsAre(Pair("f32", 100), Pair("i8", 400), Pair("bf16", 200)));
}

TEST(ReportShares, SmallNumbersWithoutInstructionsAreComparedWithCopyingOnly) {
  Report report;
  report.kernels.resize(1);
  report.kernels[0].flops = 1e6, report.kernels[0].bytes = 1e3, report.kernels[0].small_products = DType::Int(8);
  report.kernels[0].time = EstimateOf({1e-6});
  AddShares(report, Machine());
  EXPECT_DOUBLE_EQ(*report.kernels[0].roof_us, 0.01) << "the peak of f32 would be 10 us";
  EXPECT_EQ(report.kernels[0].bound, "L1");
}

TEST(ReportShares, KernelsFasterThanCopyingShowThatTheCeilingsWereDisturbed) {
  Report report = Tasks();
  report.kernels[0].flops = 1e6, report.kernels[0].bytes = 1e3;
  report.kernels[0].time = EstimateOf({10e-6});  // 3 times the roof, by Winograd's algorithm
  report.kernels[1].flops = 1e3, report.kernels[1].bytes = 1e6;
  report.kernels[1].time = EstimateOf({60e-6});  // 1.7 times the roof of copying: it reads only
  AddShares(report, Machine());
  EXPECT_THAT(report.notes, IsEmpty());
  report.kernels[0].time = report.kernels[1].time = EstimateOf({40e-6});
  AddShares(report, Machine());
  ASSERT_THAT(report.notes, SizeIs(1));
  EXPECT_THAT(report.notes[0], HasSubstr("1 kernel moves more than twice the bytes per second"));
}

TEST(ReportShares, AreEmptyWithoutTimesAndWithoutARoofline) {
  Report report = Tasks();
  AddShares(report, std::nullopt);
  EXPECT_FALSE(report.kernels_us);
  EXPECT_FALSE(report.ceilings);
  report.kernels[0].time = EstimateOf({1e-6});
  AddShares(report, std::nullopt);
  EXPECT_DOUBLE_EQ(*report.kernels[0].share, 1);
  EXPECT_FALSE(report.kernels[0].roof_share);
  EXPECT_FALSE(report.kernels[1].share);
}

TEST(ReportEstimate, HasAnIntervalFromSixSamplesOn) {
  EXPECT_FALSE(EstimateOf({1e-6, 2e-6, 3e-6, 4e-6, 5e-6}).low_us);
  const Estimate six = EstimateOf({1e-6, 2e-6, 3e-6, 4e-6, 5e-6, 6e-6});
  EXPECT_DOUBLE_EQ(six.median_us, 3.5);
  EXPECT_DOUBLE_EQ(*six.low_us, 1);
  EXPECT_DOUBLE_EQ(*six.high_us, 6);
}

size_t CountOf(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += word.size()) ++count;
  return count;
}

TEST(ReportPage, ShowsHostileNamesAsText) {
  Report plain = Tasks(), hostile = Tasks();
  const std::string names[] = {"</script><script>alert(1)</script>",
                               "<!--<script>",
                               "\"quotes' & <b>",
                               std::string(5000, 'x'),
                               "\u202eright to left",
                               "a\u2028b\u2029c",
                               "@DATA@",
                               "\\u003c"};
  for (const std::string& name : names) hostile.kernels.push_back({.task = name, .label = name, .trace = name});
  const std::string page = PageOf(ToJson(hostile));
  EXPECT_EQ(CountOf(page, "<script"), CountOf(PageOf(ToJson(plain)), "<script"));
  EXPECT_EQ(CountOf(page, "</script"), CountOf(PageOf(ToJson(plain)), "</script"));
  EXPECT_EQ(CountOf(page, "<!--"), 0u);
  EXPECT_EQ(CountOf(page, "\u2028"), 0u);
  const Result<Json> back = DataOfPage(page);
  ASSERT_TRUE(back.ok()) << back.error().Text();
  EXPECT_EQ(*back, ToJson(hostile)) << "no text is changed";
}

TEST(ReportPage, RequestsNothingAndRunsOnlyItsScripts) {
  const std::string page = PageOf(ToJson(Tasks()));
  EXPECT_THAT(page, AllOf(HasSubstr("default-src 'none'; script-src 'sha256-"), HasSubstr("style-src 'sha256-"),
                          HasSubstr("Chart.js v3.9"), HasSubstr("Permission is hereby granted")));
  for (const char* way : {"src=", "@import", "url(", "unsafe-inline", "@STYLE", "@SCRIPT", "@CHART", "@DATA@"})
    EXPECT_THAT(page, Not(HasSubstr(way)));
  EXPECT_LT(page.size(), 300000u);
}

TEST(ReportPage, IsReadBackOnlyIfItIsWhole) {
  const std::string page = PageOf(ToJson(Tasks()));
  EXPECT_TRUE(DataOfPage(page).ok());
  EXPECT_FALSE(DataOfPage("<!DOCTYPE html><p>another page</p>").ok());
  EXPECT_FALSE(DataOfPage(page.substr(0, page.find("\"format\""))).ok());
}

TEST(ReportPage, LeavesOutSchedulesThatWouldMakeItLarge) {
  Report report = Tasks();
  report.kernels[0].trace = std::string(600, 's');
  report.kernels[1].trace = std::string(500, 's');
  Report all = report;
  LimitSchedules(all, 1100);
  EXPECT_THAT(all.notes, IsEmpty());
  LimitSchedules(report, 1000);
  EXPECT_THAT(report.kernels[0].trace, SizeIs(600)) << "the slowest kernel keeps its schedule";
  EXPECT_THAT(report.kernels[1].trace, IsEmpty());
  EXPECT_THAT(report.notes, ElementsAre(HasSubstr("the schedules of 1 kernels")));
}

TEST(Speedups, OfTurnsCountEachLoadOnce) {
  // Six loads of two runs each. In every load the second network is faster, by another ratio.
  const std::vector<double> before = {10, 10, 20, 20, 10, 10, 20, 20, 10, 10, 20, 20};
  const std::vector<double> after = {8, 8, 10, 10, 8, 8, 10, 10, 8, 8, 10, 10};
  const std::vector<size_t> loads = {0, 2, 4, 6, 8, 10};
  const Speedup faster = PairedSpeedup(before, after, loads);
  EXPECT_EQ(faster.verdict, Verdict::kFaster);
  EXPECT_DOUBLE_EQ(*faster.low, 1.25);
  EXPECT_DOUBLE_EQ(*faster.high, 2);
  EXPECT_EQ(PairedSpeedup(after, before, loads).verdict, Verdict::kSlower);
  EXPECT_EQ(PairedSpeedup(before, before, loads).verdict, Verdict::kEqual);
  // One load in which it is slower leaves it open; five loads cannot bound a median.
  std::vector<double> once = after;
  once[0] = once[1] = 11;
  EXPECT_EQ(PairedSpeedup(before, once, loads).verdict, Verdict::kUndecided);
  EXPECT_EQ(PairedSpeedup(before, after, {0, 2, 4, 6, 8}).verdict, Verdict::kUnknown);
}

TEST(Speedups, OfTwoReportsAreSureIfTheirIntervalsAreApart) {
  const Estimate slow{.median_us = 10, .low_us = 9, .high_us = 11}, fast{.median_us = 8, .low_us = 7, .high_us = 8.5};
  EXPECT_EQ(SpeedupOf(slow, fast).verdict, Verdict::kFaster);
  EXPECT_EQ(SpeedupOf(fast, slow).verdict, Verdict::kSlower);
  EXPECT_EQ(SpeedupOf(slow, slow).verdict, Verdict::kUndecided);
  EXPECT_DOUBLE_EQ(*SpeedupOf(slow, fast).median, 1.25);
  EXPECT_EQ(SpeedupOf(slow, Estimate{.median_us = 8}).verdict, Verdict::kUnknown);
  EXPECT_FALSE(SpeedupOf(slow, std::nullopt).median);
}

TEST(Comparisons, ListWhatOnlyOneHas) {
  Report before = Tasks(), after = Tasks();
  before.name = after.name = "net";
  before.kernels[0].time = EstimateOf({20e-6});
  after.kernels[0] = {.task = kConv, .label = "conv", .calls = 3, .time = EstimateOf({10e-6}), .trace = "other"};
  after.kernels[1].task = std::string(32, 'c');
  const Result<Comparison> comparison = Compare(before, after);
  ASSERT_TRUE(comparison.ok());
  ASSERT_THAT(comparison->changes, SizeIs(1));
  EXPECT_TRUE(comparison->changes[0].other_schedule);
  EXPECT_DOUBLE_EQ(*comparison->changes[0].speedup.median, 2);
  EXPECT_THAT(comparison->only_before, ElementsAre(kPool));
  EXPECT_THAT(comparison->only_after, ElementsAre(std::string(32, 'c')));
  const std::string table = ComparisonTable(*comparison, 80);
  EXPECT_THAT(table, AllOf(HasSubstr("only in the first:"), HasSubstr("only in the second:"), HasSubstr("2.000")));
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(Comparisons, OfDifferentNetworksSaySo) {
  Report before = Tasks(), after = Tasks();
  after.kernels[0].task = std::string(32, 'c');
  EXPECT_THAT(Compare(before, after)->notes, IsEmpty()) << "one kernel is in both";
  after.kernels[1].task = std::string(32, 'd');
  EXPECT_THAT(Compare(before, after)->notes, ElementsAre(HasSubstr("no kernel in common")));
}

TEST(Comparisons, RefuseReportsOfDifferentKinds) {
  Report database = Tasks();
  database.kind = "database";
  EXPECT_FALSE(Compare(Tasks(), database).ok());
  EXPECT_TRUE(Compare(Tasks(), Tasks()).ok());
}

TEST(Comparisons, SayInWhatElseTheMeasurementsDiffer) {
  Report before = Tasks(), after = Tasks();
  before.machine = "a board";
  after.machine = "a server";
  EXPECT_THAT(Compare(before, after)->notes, ElementsAre("different machines: a board, then a server"));
  EXPECT_THAT(Compare(before, before)->notes, IsEmpty());
}

}  // namespace
}  // namespace autotune::tools::report
