// Applies random legal traces to random programs, verifies the program after each pass of lowering, and compares the
// compiled code with the interpreted program. A case that fails, or that is refused for an unlisted reason, is shrunk
// and printed.
//   AUTOTUNE_SCHEDULES=1000000 build/tests/test_codegen --gtest_filter='CompiledRandomTraces.*'   on all cores
//   AUTOTUNE_SCHEDULE_SEED=7 ...                                                                  other schedules
//   AUTOTUNE_SCHEDULE_CASE=FILE ...                                                               a printed case again
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <thread>

#include "ir/verify.h"
#include "schedule/schedule.h"
#include "tests/after_pass.h"
#include "tests/codegen/kernel.h"
#include "tests/lower/refusals.h"
#include "tests/schedule/case.h"
#include "tests/schedule/query.h"
#include "tests/schedule/step_source.h"

namespace autotune {
namespace {

using zoo::Case;
using zoo::Checker;
using zoo::FromEnvironment;
using zoo::Workload;

constexpr int kSteps = 24;             // steps that are attempted in each schedule
constexpr uint64_t kPerProcess = 500;  // schedules per process, which bounds the memory that LLVM leaks

// The reasons for which code generation may reject a lowered schedule. Any other rejection is a failure, and so is any
// refusal by lowering that kLoweringRefusals does not list.
constexpr const char* kRejections[] = {
    // If vectors overlap in part, the buffer must be in memory.
    R"(rejected: register buffer \S+ cannot be kept in registers: its accesses overlap in part)",
    // A register buffer cannot be shared between threads.
    R"(rejected: register buffer \S+ cannot be kept in registers: threads cannot share them)",
    // The number of registers that a loop needs is known only after compilation.
    R"(rejected: spills \d+ times in a register-tiled loop: .*)",
};

// Counts the outcomes of schedules. `built` leaves out schedules without steps.
struct Tally {
  int64_t built = 0, refused = 0, rejected = 0;
  std::array<int64_t, std::variant_size_v<AnyStep>> steps = {};  // uses of each step in the schedules that were built

  void Add(const Tally& other) {
    built += other.built, refused += other.refused, rejected += other.rejected;
    for (size_t i = 0; i < steps.size(); ++i) steps[i] += other.steps[i];
  }
};

// Returns `args` with zeros for the outputs, which `args` leaves empty.
std::vector<InterpArray> WithOutputs(const PrimFunc& f, std::vector<InterpArray> args) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (f.params[i].role != ParamRole::kOutput) continue;
    int64_t count = 1;
    for (int64_t extent : args[i].shape) count *= extent;
    args[i].data.assign(static_cast<size_t>(count), 0);
  }
  return args;
}

// Returns a description of the first error of the compiled schedule. Returns "" if there is none, or if the schedule is
// refused for a listed reason.
std::string WrongCompiled(const Workload& workload, const Schedule& schedule, const Target& target, Tally& tally) {
  Checker checker(workload, 3);
  std::string malformed;
  const PassContext context = test::SeeAfter([&](std::string_view pass, const PrimFunc& g) {
    Status verified = Verify(g);
    if (!verified.ok() && malformed.empty()) malformed = std::string(pass) + ": " + verified.error().Text();
  });
  Result<Built> built = Build(schedule.func(), target, {}, context);
  if (!malformed.empty()) return malformed;
  if (!built.ok()) {
    bool refused = IsAmong(built.error().message, kLoweringRefusals);
    if (!refused && !IsAmong(built.error().message, kRejections)) return "refused: " + built.error().Text();
    ++(refused ? tally.refused : tally.rejected);
    return "";
  }
  tally.built += !schedule.trace().empty();
  for (const Step& step : schedule.trace()) ++tally.steps[step.index()];
  std::vector<InterpArray> got = WithOutputs(checker.func(), checker.integers());
  Status ran = Run(*built, checker.func(), got);
  if (!ran.ok()) return ran.error().Text();
  std::string wrong = checker.CompareIntegers(got);
  if (!wrong.empty()) return wrong;
  got = WithOutputs(checker.func(), checker.floats());
  ran = Run(*built, checker.func(), got);
  return ran.ok() ? checker.CompareFloats(got) : ran.error().Text();
}

std::string WrongCompiled(const Workload& workload, const Schedule& schedule, const Target& target = Cpu()) {
  Tally ignored;
  return WrongCompiled(workload, schedule, target, ignored);
}

struct Drawn {
  Workload workload;
  Schedule schedule;
  Case ToCase() const { return {workload, schedule.trace()}; }
};

Drawn Draw(uint64_t seed) {
  Rng rng(seed);
  Workload workload = zoo::DrawWorkload(rng);
  Drawn drawn{workload, Schedule(MakeProgram(workload))};
  StepSource source(seed, /*threads=*/false);
  for (int i = 0; i < kSteps; ++i) (void)drawn.schedule.Apply(source.Next(drawn.schedule), &source.rng());
  return drawn;
}

// The progress of a process, in memory that its parent can read even if a kernel or LLVM crashes the process. LLVM
// compiles one kernel at a time per process, so it takes several processes to use all cores.
struct Progress {
  uint64_t seed = 0;  // the seed that is being checked
  Tally tally;
  char report[1 << 18] = "";  // describes the first case that is wrong
};

void CheckSeeds(uint64_t begin, uint64_t end, const Target& target, Progress& progress) {
  for (progress.seed = begin; progress.seed < end; ++progress.seed) {
    Drawn drawn = Draw(progress.seed);
    std::string wrong = WrongCompiled(drawn.workload, drawn.schedule, target, progress.tally);
    if (wrong.empty()) continue;
    zoo::Judge judge = [&](const Workload& w, const Schedule& s) { return WrongCompiled(w, s, target); };
    ReportOf(drawn.ToCase(), wrong, judge).copy(progress.report, sizeof progress.report - 1);
    return;
  }
}

// Checks `count` seeds from `first` on, in at most `processes` processes at a time. Returns the reports of the first
// failures, or "".
std::string CheckInProcesses(uint64_t first, uint64_t count, size_t processes, const Target& target, Tally& tally) {
  std::map<pid_t, Progress*> running;
  std::string reports;
  for (uint64_t next = 0; (next < count && reports.empty()) || !running.empty();) {
    if (running.size() < processes && next < count && reports.empty()) {
      void* memory =
          mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0);
      if (memory == MAP_FAILED) return "no memory";
      Progress* progress = new (memory) Progress;
      uint64_t begin = next;
      next = std::min(count, begin + kPerProcess);
      fflush(nullptr);
      pid_t child = fork();
      if (child < 0) return "no process";
      if (child == 0) {
        CheckSeeds(first + begin, first + next, target, *progress);
        exit(0);  // runs a sanitizer's check for leaks
      }
      running[child] = progress;
      continue;
    }
    int status = 0;
    auto ended = running.find(wait(&status));
    if (ended == running.end()) continue;
    const Progress& progress = *ended->second;
    if (progress.report[0] || status != 0) {
      reports += "seed " + std::to_string(progress.seed) + ": " +
                 (status == 0 ? progress.report
                              : "the process ended with status " + std::to_string(status) + "\n" +
                                    ToText(Draw(progress.seed).ToCase())) +
                 "\n";
    }
    tally.Add(progress.tally);
    munmap(ended->second, sizeof(Progress));
    running.erase(ended);
  }
  return reports;
}

// The schedules are split into parts, which ctest runs in parallel.
class CompiledRandomTraceParts : public testing::TestWithParam<uint64_t> {};
constexpr uint64_t kParts = 2;
constexpr int64_t kFewest = 4;  // fewest uses of each step in a part; skip_padding applies to few programs

TEST_P(CompiledRandomTraceParts, AgreeWithTheInterpreter) {
  size_t processes = getenv("AUTOTUNE_SCHEDULES") ? std::max(1u, std::thread::hardware_concurrency()) : 1;
  uint64_t count = (FromEnvironment("AUTOTUNE_SCHEDULES", 1000) + kParts - 1) / kParts;
  Tally tally;
  uint64_t first = (FromEnvironment("AUTOTUNE_SCHEDULE_SEED", 0) * kParts + GetParam()) << 32;
  if (std::string wrong = CheckInProcesses(first, count, processes, Cpu(), tally); !wrong.empty()) FAIL() << wrong;
  printf("%lld built, %lld refused by lowering, %lld rejected by code generation\n",
         static_cast<long long>(tally.built), static_cast<long long>(tally.refused),
         static_cast<long long>(tally.rejected));
  if (count < 500) return;  // the shares below need more schedules
  EXPECT_GT(tally.built, static_cast<int64_t>(count) * 10 / 11);
  if (count < 3000) return;  // the rarest steps need more; RandomSchedules counts them in every run of the tests
  // Every step for CPUs must occur.
  [&]<size_t... I>(std::index_sequence<I...>) {
    for (size_t i : {I...}) {
      std::string_view name = std::array{std::variant_alternative_t<I, AnyStep>::kName...}[i];
      if (name == Bind::kName || name == Pipeline::kName || name == TensorCore::kName) continue;  // steps for GPUs
      EXPECT_GE(tally.steps[i], kFewest) << name;
    }
  }
  (std::make_index_sequence<std::variant_size_v<AnyStep>>());
}
INSTANTIATE_TEST_SUITE_P(, CompiledRandomTraceParts, testing::Range<uint64_t>(0, kParts));

// A C compiler takes longer for a kernel than LLVM, so this test has fewer schedules.
TEST(CompiledRandomTraces, ByACompilerOfC) {
  const bool many = getenv("AUTOTUNE_SCHEDULES");
  size_t processes = many ? std::max(1u, std::thread::hardware_concurrency()) : 1;
  for (size_t i : {1, 2}) {
    const Target& target = Generators()[i];
    SCOPED_TRACE(target.Text());
    Tally tally;
    uint64_t first = (FromEnvironment("AUTOTUNE_SCHEDULE_SEED", 0) * 4 + i) << 40;
    uint64_t count = many ? FromEnvironment("AUTOTUNE_SCHEDULES", 0) / 10 : 30;
    if (std::string wrong = CheckInProcesses(first, count, processes, target, tally); !wrong.empty()) FAIL() << wrong;
    printf("%lld built, %lld refused by lowering, %lld rejected by code generation\n",
           static_cast<long long>(tally.built), static_cast<long long>(tally.refused),
           static_cast<long long>(tally.rejected));
    EXPECT_GT(tally.built, static_cast<int64_t>(count) * 5 / 6);
  }
}

TEST(CompiledRandomTraces, ACaseAgain) {
  std::optional<Case> c = zoo::CaseFromEnvironment();
  if (!c) GTEST_SKIP() << "no case: set AUTOTUNE_SCHEDULE_CASE to a file that holds one";
  Schedule schedule = zoo::ApplyLegal(MakeProgram(c->workload), c->trace);
  printf("%s", ToText(schedule.func()).c_str());
  for (const Target& target : Generators())
    EXPECT_EQ(WrongCompiled(c->workload, schedule, target), "") << target.Text();
}

// A schedule that binds a loop to an axis of a GPU's grid counts as a failure on a CPU, since no listed reason of a
// refusal matches it.
TEST(CompiledRandomTraces, AnotherRefusalIsNoticed) {
  Workload workload = zoo::ParseWorkload("elementwise(rows=3, columns=5, outputs=1)").value();
  PrimFunc f = MakeProgram(workload);
  Schedule schedule(f);
  ASSERT_TRUE(schedule.Apply(Bind{GetLoops(f, GetBlocks(f).back())->front().var, LoopKind::kBlockX}).ok());
  EXPECT_THAT(WrongCompiled(workload, schedule), testing::HasSubstr("a CPU runs no grids of threads"));
}

// The comparison of integers notices an error of 1, and that of floats an error of 0.01.
TEST(CompiledRandomTraces, AWrongElementIsNoticed) {
  Workload workload = zoo::ParseWorkload("elementwise(rows=3, columns=5, outputs=1)").value();
  Checker checker(workload, 3);
  auto built = Build(checker.func());
  ASSERT_TRUE(built.ok()) << built.error().Text();
  std::vector<InterpArray> got = WithOutputs(checker.func(), checker.integers());
  ASSERT_TRUE(autotune::Run(*built, checker.func(), got).ok());
  EXPECT_EQ(checker.CompareIntegers(got), "");
  got.back().data[7] += 1;
  EXPECT_NE(checker.CompareIntegers(got), "");
  got = WithOutputs(checker.func(), checker.floats());
  ASSERT_TRUE(autotune::Run(*built, checker.func(), got).ok());
  EXPECT_EQ(checker.CompareFloats(got), "");
  got.back().data[7] += 0.01;
  EXPECT_NE(checker.CompareFloats(got), "");
}

}  // namespace
}  // namespace autotune
