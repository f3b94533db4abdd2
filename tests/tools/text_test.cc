// The wording of messages (counts, notes, machines, waits, choices), and the selection of tasks by patterns.
#include "tools/autotune/text.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>

#include "service/choice_report.h"
#include "service/select_tasks.h"
#include "support/clock.h"
#include "tools/autotune/host.h"
#include "tools/autotune/waits.h"
#include "tools/farm_status.h"
#include "tools/tracker_choice.h"

namespace autotune::tools {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;

TuneTask TaskOf(uint64_t high, const std::string& label) {
  TuneTask task;
  task.hash = {high << 32, 0};
  task.label = label;
  return task;
}

TEST(Text, CountsAgreeWithTheirNouns) {
  EXPECT_EQ(CountText(0, "task"), "0 tasks");
  EXPECT_EQ(CountText(1, "task"), "1 task");
  EXPECT_EQ(CountText(2, "task"), "2 tasks");
}

TEST(Text, TheStatusOfAFarmHasNoControlCharacters) {
  const std::string evil = "eve\033[2J\ncpu free";
  rpc::StatusReply status;
  status.devices = {{.key = evil, .state = evil, .last_error = evil, .why = evil},
                    {.key = "cpu", .state = "busy", .client_name = evil, .job = evil, .trials = {{evil, 1}}}};
  status.queue = {{.key = evil, .client_name = evil}};
  status.absent_keys = {{evil, 1}};
  status.errors = {evil};
  status.holds = {{.pattern = evil, .how = evil, .note = evil, .who = evil}};
  const std::string text = StatusText(status);
  EXPECT_EQ(std::count_if(text.begin(), text.end(), [](char c) { return c > 0 && c < ' ' && c != '\n'; }), 0) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 7) << text;
}

// Another user may have made a folder in /tmp.
TEST(Text, TheDefaultTrackerIsInAFolderOfThisUser) {
  const std::string runtime = testing::TempDir() + "runtime-" + std::to_string(getpid());
  for (const char* name : {"AUTOTUNE_JOIN", "AUTOTUNE_TRACKER"}) unsetenv(name);
  for (const char* name : {"XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"}) setenv(name, runtime.c_str(), 1);
  const Result<rpc::Address> found = TrackerChoice().Find();
  EXPECT_EQ(found->endpoints.at(0), "ipc://" + runtime + "/autotune/tracker");
  EXPECT_EQ(chmod((runtime + "/autotune").c_str(), 0755), 0);
  EXPECT_THAT(TrackerChoice().Find().error().Text(), HasSubstr("other users may enter the folder"));
  for (const char* name : {"XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"}) unsetenv(name);
  std::filesystem::remove_all(runtime);
}

TEST(Text, EqualNotesBecomeOneWithACount) {
  EXPECT_THAT(WithoutRepeats({"a", "b", "a", "a"}), ElementsAre("a (3 times)", "b"));
  EXPECT_THAT(WithoutRepeats({}), IsEmpty());
}

TEST(Text, KernelsWithTheSameNoteShareALine) {
  std::vector<NetworkTask> tasks;
  for (uint64_t i = 1; i <= 5; ++i) {
    const TuneTask task = TaskOf(i, "conv2d " + std::to_string(i));
    tasks.push_back({.hash = task.hash, .label = task.label});
  }
  std::vector<KernelChoice> choices;
  for (const NetworkTask& task : tasks) choices.push_back({.task = &task, .note = "tuned for 4 cores"});
  choices[1].note = "its best schedule does not build any more";
  choices[4].note = "";
  EXPECT_THAT(KernelNotes(choices), ElementsAre("3 kernels (00000001, 00000003, 00000004): tuned for 4 cores",
                                                "00000002 conv2d 2: its best schedule does not build any more"));
  choices[4].note = "tuned for 4 cores";
  EXPECT_EQ(KernelNotes(choices)[0], "4 kernels (00000001, 00000003, 00000004, ...): tuned for 4 cores");
}

TEST(Text, NotesOnTheChoiceFollowThoseOnKernels) {
  const NetworkTask task{.hash = {uint64_t{1} << 32, 0}, .label = "softmax"};
  CompileResult compiled;
  compiled.choices.push_back({.task = &task});
  EXPECT_THAT(CompileNotes(compiled), IsEmpty());
  compiled.choices[0].note = "tuned for 4 cores";
  compiled.note = "the choice is old";
  EXPECT_THAT(CompileNotes(compiled), ElementsAre("00000001 softmax: tuned for 4 cores", "the choice is old"));
}

TEST(Text, ANoteSaysThatTheChoiceKeepsTheDefaults) {
  CompileResult compiled;
  compiled.followed_choice = true;
  EXPECT_THAT(CompileNotes(compiled), ElementsAre(HasSubstr("keeps its default schedules")));
  compiled.package.info.tuned_tasks = 1;
  EXPECT_THAT(CompileNotes(compiled), IsEmpty());
  compiled.package.info.tuned_tasks = 0;
  compiled.followed_choice = false;
  EXPECT_THAT(CompileNotes(compiled), IsEmpty());
}

TEST(Text, MachinesAreNamedInWords) {
  auto text = [](const char* target) { return MachineText(Target::Parse(target).value()); };
  EXPECT_EQ(text("llvm -mtriple=x86_64-linux-gnu -mcpu=nehalem -num-cores=1"), "1 core of nehalem (SSE)");
  EXPECT_EQ(text("llvm -mtriple=x86_64-linux-gnu -mcpu=sandybridge -num-cores=2"), "2 cores of sandybridge (AVX)");
  EXPECT_EQ(text("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4"), "4 cores of cortex-a76 (NEON)");
  EXPECT_EQ(text("llvm -mtriple=riscv64-linux-gnu -mcpu=sifive-x280 -num-cores=4"),
            "4 cores of sifive-x280 (RVV of 512 bits)");
  EXPECT_EQ(text("c -mtriple=x86_64-linux-gnu -mcpu=nehalem -num-cores=1"), "1 core of nehalem (SSE, as C)");
  EXPECT_EQ(text("c -mtriple=x86_64-linux-gnu -mcpu=nehalem -num-cores=1 -vectors=none"),
            "1 core of nehalem (SSE, as C without vector types)");
  EXPECT_EQ(text("cuda -arch=sm_80"), "108 units of a GPU sm_80 (1024 threads and 163 KiB of shared memory a block)");
  EXPECT_THAT(text("cpu"), AllOf(Not(HasSubstr("-mcpu")), Not(HasSubstr("(R)"))));
  // Texts of targets, of which this release need not know every one.
  EXPECT_EQ(MachineText(std::string("c -mtriple=x86_64-linux-gnu -mcpu=nehalem -num-cores=1")),
            "1 core of nehalem (SSE, as C)");
  EXPECT_EQ(MachineText(std::string("abacus -beads=100")), "abacus -beads=100");
}

TEST(Text, AWaitSaysForWhatSinceWhenAndWhy) {
  EXPECT_THAT(WaitText("a device", BootMillis() - 65'000, "all are busy"),
              MatchesRegex("waiting for a device since [0-9:]+ [(]1m0[56]s[)]: all are busy"));
}

TEST(Text, LinesAboutWaitsAreLimitedForEachThing) {
  WaitLines lines;
  EXPECT_TRUE(lines.IsDue("a device", "1 of 1 devices busy; place 2 in the queue; held by ann for 3 s"));
  EXPECT_FALSE(lines.IsDue("a device", "1 of 1 devices busy; place 1 in the queue; held by bob for 1 min"));
  EXPECT_TRUE(lines.IsDue("this host", ""));
  EXPECT_TRUE(lines.IsDue("a device", "0 of 1 devices busy, 1 unreachable; place 1 in the queue"));
  EXPECT_FALSE(lines.IsDue("a device", "0 of 1 devices busy, 1 unreachable; place 1 in the queue"));
}

TEST(Text, AChoiceSaysWhetherItWasDisturbed) {
  ChosenNetwork chosen;
  chosen.tasks_with_records = chosen.tuned_tasks = 1;
  for (bool undisturbed : {true, false}) {
    chosen.undisturbed = undisturbed;
    EXPECT_EQ(ChoiceText(chosen).find("may have disturbed") == std::string::npos, undisturbed);
    EXPECT_EQ(ToEvent(chosen).undisturbed, undisturbed);
  }
}

class Selection : public ::testing::Test {
 protected:
  std::vector<std::string> Of(const std::string& patterns) {
    std::vector<std::string> labels;
    auto selected = SelectTasks(tasks_, patterns, leaders_);
    if (!selected.ok()) return {"error: " + selected.error().Text()};
    for (const TuneTask& task : *selected) labels.push_back(task.label);
    return labels;
  }
  std::vector<TuneTask> tasks_ = {TaskOf(0xabcd0001, "conv2d_relu [1,8,8,4] x [3,3,4,4]"),
                                  TaskOf(0xabcd0002, "conv2d [1,8,8,4] x [1,1,4,4]"),
                                  TaskOf(0x12345678, "softmax [1,10]")};
  Leaders leaders_;
};

TEST_F(Selection, PatternsArePartsOfLabelsGlobsOrIds) {
  EXPECT_THAT(Of(""), ElementsAre(tasks_[0].label, tasks_[1].label, tasks_[2].label));
  EXPECT_THAT(Of("softmax"), ElementsAre(tasks_[2].label));
  EXPECT_THAT(Of("conv2d"), ElementsAre(tasks_[0].label, tasks_[1].label));
  EXPECT_THAT(Of("conv2d [1,8,8,4]"), ElementsAre(tasks_[1].label))
      << "a comma inside a shape must not separate patterns";
  EXPECT_THAT(Of("conv2d*[3,3,?,4]"), ElementsAre(tasks_[0].label));
  EXPECT_THAT(Of("abcd0002"), ElementsAre(tasks_[1].label));
  EXPECT_THAT(Of("softmax,abcd0001"), ElementsAre(tasks_[0].label, tasks_[2].label))
      << "the result must have the order of the tasks";
  EXPECT_THAT(Of("softmax,softmax"), ElementsAre(tasks_[2].label));
}

TEST_F(Selection, AnIdOfATaskThatFollowsNamesItsLeader) {
  EXPECT_THAT(Of("abcd0003"), ElementsAre(HasSubstr("no task has an id that begins with abcd0003")));
  leaders_[TaskOf(0xabcd0003, "").hash.Hex()] = tasks_[1].hash.Hex();
  EXPECT_THAT(Of("abcd0003"), ElementsAre(tasks_[1].label));
  EXPECT_THAT(Of("abcd0003,abcd0002"), ElementsAre(tasks_[1].label));
  EXPECT_THAT(Of("abcd"), ElementsAre(HasSubstr("3 tasks have an id that begins with abcd")));
}

TEST_F(Selection, APatternThatNamesNothingIsAnError) {
  EXPECT_THAT(Of("pool"),
              ElementsAre("error: --tasks: no task's label contains 'pool' (hint: --tasks list shows the labels)"));
  EXPECT_THAT(Of("softmax,"), ElementsAre(HasSubstr("error: --tasks: no task's label contains ''")));
  EXPECT_THAT(Of("conv3d*"), ElementsAre(HasSubstr("error")));
  EXPECT_THAT(Of("ffff"), ElementsAre(HasSubstr("no task has an id that begins with ffff")));
  EXPECT_THAT(Of("abcd"), ElementsAre(HasSubstr("2 tasks have an id that begins with abcd: abcd0001, abcd0002")));
}

}  // namespace
}  // namespace autotune::tools
