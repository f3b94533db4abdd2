// The table of tasks and the events behind it, on reports that the tests make up.
#include "tools/autotune/task_table.h"

#include <gmock/gmock.h>

#include "service/tune_events.h"
#include "support/terminal.h"
#include "tests/tools/cli.h"

namespace autotune::tools {
namespace {

using test::Lines;
using ::testing::AllOf;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::Not;

// A run over four tasks: a fast one that gained, a slow one with one schedule, one that kept its default schedule, and
// one that was not tried.
class Report : public ::testing::Test {
 protected:
  Report() {
    for (uint64_t i = 0; i < 4; ++i) {
      tasks_[i].hash = {(0xa0000000 + i) << 32, 0};
      tasks_[i].label = "conv2d_add_relu [1,56,56,64] x [3,3,64,64] x [1,1,1,64] number " + std::to_string(i);
      tasks_[i].weight = 2;
      tasks_[i].flops = 1e6;
      report_.tasks.push_back({.task = &tasks_[i]});
    }
    Set(0, {.trials = 8, .default_seconds = 20e-6, .default_trace = "d", .best_seconds = 10e-6, .best_trace = "t"});
    Set(1, {.trials = 1, .default_seconds = 2e-3, .default_trace = "d", .best_seconds = 2e-3, .best_trace = "d"});
    report_.tasks[1].only_schedule = report_.tasks[1].exhausted = true;
    Set(2, {.trials = 3, .default_seconds = 4e-6, .default_trace = "d", .best_seconds = 4e-6, .best_trace = "d"});
    report_.trials = 12;
  }
  void Set(size_t i, TaskReport task) {
    task.task = &tasks_[i];
    task.default_alternative = task.best_alternative = "direct";
    report_.tasks[i] = std::move(task);
  }
  event::End End() { return EndOf(report_, {.trials = 100}, nullptr, 1e12); }
  std::string Table(int width, bool colours = false) { return TaskTable(End(), {width, colours}); }
  std::string Row(const std::string& table, const std::string& id) {
    for (const std::string& line : Lines(table)) {
      if (line.starts_with(id)) return line;
    }
    return "";
  }

  TuneTask tasks_[4];
  TuneReport report_;
};

TEST_F(Report, RowsAreSortedByTimeInTheNetwork) {
  const event::End end = End();
  EXPECT_EQ(end.tasks[0].hash, tasks_[1].hash.Hex());
  EXPECT_EQ(end.tasks[1].hash, tasks_[0].hash.Hex());
  EXPECT_EQ(end.tasks[2].hash, tasks_[2].hash.Hex());
  EXPECT_FALSE(end.tasks[3].share) << "nothing was measured";
  double sum = 0;
  for (const event::Task& task : end.tasks) sum += task.share.value_or(0);
  EXPECT_NEAR(sum, 1, 1e-12);
  EXPECT_NEAR(*end.tasks[0].share, 2e-3 / 2.014e-3, 1e-9);
}

TEST_F(Report, ATimeIsNotRepeatedAndASingleScheduleIsRemarked) {
  const std::string table = Table(0);
  EXPECT_THAT(Row(table, "a0000000"), AllOf(HasSubstr(" 20.00 us "), HasSubstr(" 10.00 us ")));
  EXPECT_THAT(Row(table, "a0000001"), AllOf(HasSubstr(" 2.000 ms "), HasSubstr("only one"), HasSubstr(" 99.3 ")));
  EXPECT_THAT(Row(table, "a0000002"), AllOf(HasSubstr(" 4.000 us "), HasSubstr(" default ")));
  EXPECT_THAT(Row(table, "a0000003"), HasSubstr("untried"));
  EXPECT_THAT(table, AllOf(HasSubstr("\nonly one: "), HasSubstr("\nuntried: "), Not(HasSubstr("\nfailed: "))));
  report_.tasks[3].records = 5;
  EXPECT_THAT(Row(Table(0), "a0000003"), HasSubstr("failed"));
}

TEST_F(Report, TheTableFitsTheTerminal) {
  for (int width : {60, 80, 110, 200}) {
    for (const std::string& line : Lines(Table(width))) EXPECT_LE(TextWidth(line), width) << line;
    EXPECT_THAT(Row(Table(width), "a0000001"), AllOf(HasSubstr("only one"), HasSubstr("conv2d"))) << width;
  }
  EXPECT_THAT(Table(60), Not(HasSubstr("GFLOPS")));
  EXPECT_THAT(Table(110), AllOf(HasSubstr("GFLOPS"), HasSubstr("trials")));
  EXPECT_THAT(Table(110), Not(HasSubstr("number 3")));
  EXPECT_THAT(Table(0), AllOf(HasSubstr("GFLOPS"), HasSubstr("number 3"))) << "all columns, names in full";
}

TEST_F(Report, ColoursHaveMeanings) {
  const std::string table = Table(0, true);
  EXPECT_THAT(Row(table, "a0000000"), HasSubstr("\033[32m10.00 us"));
  EXPECT_THAT(Row(table, "a0000001"), HasSubstr("\033[33monly one"));
  EXPECT_THAT(Row(table, "a0000002"), Not(HasSubstr("\033[")));
  EXPECT_THAT(Table(0, false), Not(HasSubstr("\033[")));
}

// The database may hold a time of the default schedule from a busier hour. A row has one time for one schedule.
TEST_F(Report, AllNumbersOfARowFollowFromOneTime) {
  report_.tasks[2].best_seconds = 40e-6;
  const event::End end = End();
  const auto row = std::ranges::find(end.tasks, tasks_[2].hash.Hex(), &event::Task::hash);
  EXPECT_TRUE(row->keeps_default);
  EXPECT_DOUBLE_EQ(*row->default_ms, 4e-3);
  EXPECT_DOUBLE_EQ(*row->tuned_ms, 4e-3);
  EXPECT_NEAR(*row->gflops, tasks_[2].flops / 4e-6 / 1e9, 1e-9);
  EXPECT_NEAR(*row->share, 4e-6 * static_cast<double>(tasks_[2].weight) / (*end.kernels_ms / 1e3), 1e-12);
}

// The time that is left must not count trials that no task can use.
TEST_F(Report, NothingIsLeftForTasksOfOneSchedule) {
  report_.seconds = 6;
  auto left = [&] {
    return std::get<event::Round>(ProgressOf(report_, report_.tasks[0], {.trials = 100})).seconds_left;
  };
  EXPECT_DOUBLE_EQ(*left(), 44) << "88 trials at 2 a second";
  for (TaskReport& task : report_.tasks) task.only_schedule = true;
  EXPECT_DOUBLE_EQ(*left(), 0);
}

TEST_F(Report, WithoutAChoiceTheGainIsThatOfTheKernels) {
  EXPECT_EQ(SavedOf("net", "2 cores", End()).gain,
            "net on 2 cores: its kernels together are 1.005 times as fast as untuned");
  EXPECT_TRUE(SavedOf("net", "2 cores", End()).faster);
  report_.tasks[0].best_seconds = 20e-6;
  EXPECT_EQ(SavedOf("net", "2 cores", End()).gain, "net on 2 cores: no kernel is faster than by its default schedule");
  EXPECT_FALSE(SavedOf("net", "2 cores", End()).faster);
}

TEST_F(Report, TheGainOfAChoiceIsTheOneThatIsSure) {
  event::End end = End();
  end.choice = event::Choice{.tuned_tasks = 1,
                             .comparisons = {{.threads = 2, .speedup = 1.02, .speedup_low = 0.9},
                                             {.threads = 1, .speedup = 1.1, .speedup_low = 1.05}}};
  EXPECT_THAT(SavedOf("net", "2 cores", end).gain,
              Eq("net on 2 cores: 1.100 times as fast as untuned on 1 thread (2 threads: no sure difference)"));
  end.choice->comparisons[0].speedup_low = 1.01;
  EXPECT_THAT(SavedOf("net", "2 cores", end).gain,
              Eq("net on 2 cores: 1.020 times as fast as untuned on 2 threads, 1.100 on 1 thread"));
  end.choice->kept_defaults = true;
  EXPECT_FALSE(SavedOf("net", "2 cores", end).faster);
  EXPECT_THAT(SavedOf("net", "2 cores", end).gain, Not(HasSubstr("times as fast")));
}

}  // namespace
}  // namespace autotune::tools
