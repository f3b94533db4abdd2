// Lowering for GPUs. Random schedules, with and without threads, keep their meaning after every pass. The interpreter
// runs the threads in random order and reports races, reads of unwritten shared memory and divergent barriers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "ir/annotations.h"
#include "ir/text.h"
#include "ir/threads.h"
#include "ir/verify.h"
#include "ir/visit.h"
#include "tests/close.h"
#include "tests/ir/random_program.h"
#include "tests/lower/refusals.h"
#include "tests/lower/run_lowered.h"
#include "tests/schedule/case.h"
#include "tests/schedule/step_source.h"
#include "tests/schedule/zoo.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;

Target Cpu() { return Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -mattr=+avx2,+fma").value(); }
Target Gpu() { return Target::Parse("opencl -mtriple=x86_64-linux-gnu -max-threads=64").value(); }
Target GpuWithAsyncCopies() {
  return Target::Parse("cuda -arch=sm_80 -mtriple=x86_64-linux-gnu -max-threads=64").value();
}

struct Tally {
  // Numbers of programs: all that lowering accepted, those with barriers, and those with asynchronous copies.
  int compared = 0, barriers = 0, async = 0;
};

bool HasAsyncStores(const Stmt& s) {
  bool found = false;
  Walk(s, [&](const Stmt& x) { return found |= IsAsyncStore(x), !found; });
  return found;
}

bool IsPipelined(const Stmt& s) {
  bool found = false;
  Walk(s, [&](const Stmt& x) { return found |= x.As<For>() && x.As<For>()->annotations.contains(kPipeline), !found; });
  return found;
}

// Lowers `f` for a GPU and `plain`, the unscheduled program, for a CPU, and interprets both. Returns a description of
// the first difference or error, or "". It is no error if lowering refuses `f` for one of kGpuRefusals.
std::string Wrong(const PrimFunc& f, const PrimFunc& plain, const std::vector<InterpArray>& args,
                  Tally* tally = nullptr, const Target& target = Gpu()) {
  Result<LoweredKernel> lowered = Lower(f, target);
  if (!lowered.ok()) return IsAmong(lowered.error().message, kGpuRefusals) ? "" : lowered.error().Text();
  if (Status verified = Verify(lowered->run, autotune::Dialect::kLowered); !verified.ok())
    return verified.error().Text();
  if (tally) {
    ++tally->compared, tally->barriers += HasBarrier(lowered->run.body);
    tally->async += HasAsyncStores(lowered->run.body);
  }
  std::string error;
  const std::vector<double> want = RunLowered(plain, Lower(plain, Cpu()).value(), args, error);
  if (!error.empty()) return "on a CPU: " + error;
  for (uint64_t seed : {0, 1, 2}) {
    const std::vector<double> got = RunLowered(f, *lowered, args, error, seed);
    if (!error.empty()) return error;
    // Inputs are small integers, so results are exact, except where a Winograd transform or a function rounds.
    if (std::string difference = test::Difference(got, want); !difference.empty()) return difference;
  }
  return "";
}

// Returns the number of random schedules: AUTOTUNE_GPU_SCHEDULES from the environment, or 1000.
int NumSchedules() {
  const char* asked = std::getenv("AUTOTUNE_GPU_SCHEDULES");
  return asked ? std::atoi(asked) : 1000;
}

TEST(GpuLowering, RandomProgramsWithoutThreadsAreBound) {
  Tally tally;
  for (uint64_t seed = 1; seed <= 200 && !HasFailure(); ++seed) {
    const PrimFunc f = test::MakeRandomProgram(seed);
    EXPECT_EQ(Wrong(f, f, test::RandomArgs(f, 3), &tally), "") << "seed " << seed << "\n" << ToText(f);
  }
  EXPECT_EQ(tally.compared, 200) << "a program without threads must not be refused";
}

TEST(GpuLowering, RandomSchedulesKeepTheMeaning) {
  int with_threads = 0;
  Tally tally;
  for (int seed = 0; seed < NumSchedules() && !HasFailure(); ++seed) {
    Rng rng(static_cast<uint64_t>(seed));
    zoo::Case c{zoo::DrawWorkload(rng), {}};
    StepSource source(static_cast<uint64_t>(seed));
    Schedule schedule(MakeProgram(c.workload));
    for (int i = 0; i < 30; ++i) (void)schedule.Apply(source.Next(schedule), &source.rng());
    with_threads += HasThreads(schedule.func().body);
    auto judge = [&](const zoo::Workload& workload, const Schedule& s, Tally* found = nullptr) {
      const zoo::Checker checker(workload, 3);
      // Without pipelines, both targets give the same programs.
      const std::string wrong = Wrong(s.func(), checker.func(), checker.integers(), found);
      if (!wrong.empty() || !IsPipelined(s.func().body)) return wrong;
      return Wrong(s.func(), checker.func(), checker.integers(), found, GpuWithAsyncCopies());
    };
    if (judge(c.workload, schedule, &tally).empty()) continue;
    auto wrong = [&](const zoo::Workload& workload, const Schedule& s) { return judge(workload, s); };
    c.trace = schedule.trace();
    zoo::Case least = Shrink(c, wrong);
    Schedule shrunk = zoo::ApplyLegal(MakeProgram(least.workload), least.trace);
    Result<LoweredKernel> again = Lower(shrunk.func(), Gpu());
    ADD_FAILURE() << "seed " << seed << ": " << wrong(least.workload, shrunk) << "\n"
                  << ToText(least) << ToText(shrunk.func()) << (again.ok() ? ToText(again->run) : "");
  }
  printf("%d with threads; %d lowered and compared, %d with barriers, %d with asynchronous copies\n", with_threads,
         tally.compared, tally.barriers, tally.async);
  EXPECT_GT(with_threads, NumSchedules() / 4);
  EXPECT_GT(tally.compared, NumSchedules() / 3);
  EXPECT_GT(tally.barriers, NumSchedules() / 200);
  EXPECT_GT(tally.async, NumSchedules() / 200);
}

bool IsWait(const Stmt& s) {
  const Evaluate* evaluate = s.As<Evaluate>();
  const Call* call = evaluate ? evaluate->value.As<Call>() : nullptr;
  return call && call->op == Op::kAsyncWait;
}

// Removes the barrier or wait number `which` from the pipelined loops. `count` returns the number of barriers and
// waits.
Stmt Without(const Stmt& s, int which, int& count) {
  count = 0;
  return RewriteStmt(s, [&](const Stmt& x) {
    const Seq* seq = x.As<Seq>();
    if (!seq || std::none_of(seq->stmts.begin(), seq->stmts.end(), IsWait)) return x;
    std::vector<Stmt> left;
    for (const Stmt& child : seq->stmts) {
      if (!(IsBarrier(child) || IsWait(child)) || count++ != which) left.push_back(child);
    }
    return MakeSeq(std::move(left));
  });
}

// If one barrier or wait of its pipelined loops is removed, a program must race or compute something else. A few
// barriers and waits are redundant, such as a barrier in a kernel of one thread.
TEST(GpuLowering, EachBarrierAndEachWaitOfAPipelineIsNeeded) {
  int programs = 0, removed = 0, redundant = 0;
  std::string kept;
  for (int seed = 0; seed < NumSchedules(); ++seed) {
    Rng rng(static_cast<uint64_t>(seed));
    const zoo::Workload workload = zoo::DrawWorkload(rng);
    StepSource source(static_cast<uint64_t>(seed));
    Schedule schedule(MakeProgram(workload));
    for (int i = 0; i < 30; ++i) (void)schedule.Apply(source.Next(schedule), &source.rng());
    if (!IsPipelined(schedule.func().body)) continue;
    Result<LoweredKernel> kernel = Lower(schedule.func(), GpuWithAsyncCopies());
    if (!kernel.ok() || !HasAsyncStores(kernel->run.body)) continue;
    const zoo::Checker checker(workload, 3);
    std::string error;
    const std::vector<double> want = RunLowered(schedule.func(), *kernel, checker.integers(), error);
    int count = 0;
    Without(kernel->run.body, -1, count);
    ++programs;
    for (int which = 0; which < count; ++which) {
      LoweredKernel without = *kernel;
      without.run.body = Without(kernel->run.body, which, count);
      bool noticed = false;
      for (uint64_t order : {1, 2, 3}) {
        const std::vector<double> got = RunLowered(schedule.func(), without, checker.integers(), error, order);
        noticed |= !error.empty() || got != want;
      }
      ++removed, redundant += !noticed;
      if (!noticed) kept += "seed " + std::to_string(seed) + ", number " + std::to_string(which) + ToText(kernel->run);
    }
  }
  printf("%d programs, %d barriers and waits, %d redundant\n", programs, removed, redundant);
  EXPECT_GT(programs, NumSchedules() / 400);
  EXPECT_LE(redundant * 50, removed) << "at most 2 %: " << kept;
}

// Shared memory holds one tile, and local memory the elements of one thread. Both barriers of the loop are needed.
TEST(GpuLowering, SharedBuffersHoldATile) {
  const PrimFunc f = ParsePrimFunc(R"(func f(x: f32[4, 8, 8] input, out: f32[4, 8, 8] output) {
    alloc s: f32[4, 8, 8] shared
    alloc sum: f32[4, 8] local
    for b in 4 blockIdx.x {
      for t0 in 8 threadIdx.x { block zero(v: S 4 = b, w: S 8 = t0) { sum[v, w] = 0.0 } }
      for k in 8 {
        for t1 in 8 threadIdx.x { block fill(v1: S 4 = b, k1: S 8 = k, w1: S 8 = t1) { s[v1, k1, w1] = x[v1, k1, w1] } }
        for t2 in 8 threadIdx.x {
          block use(v2: S 4 = b, k2: S 8 = k, w2: S 8 = t2) {
            sum[v2, w2] = sum[v2, w2] + s[v2, k2, 7 - w2]
          }
        }
        for t3 in 8 threadIdx.x { block copy(v3: S 4 = b, k3: S 8 = k, w3: S 8 = t3) { out[v3, k3, w3] = sum[v3, w3] } }
      }
    }
  })")
                         .value();
  const LoweredKernel kernel = Lower(f, Gpu()).value();
  const std::string text = ToText(kernel.run);
  EXPECT_THAT(text, HasSubstr("s: f32[8] shared")) << text;
  EXPECT_THAT(text, HasSubstr("sum: f32[1] local")) << text;
  std::vector<InterpArray> args = test::RandomArgs(f, 3);
  std::string error;
  const std::vector<double> want = RunLowered(f, kernel, args, error);
  EXPECT_EQ(error, "") << text;
  for (int i = 0; i < 4 * 8 * 8; ++i) {
    double sum = 0;
    for (int k = 0; k <= i / 8 % 8; ++k) sum += args[0].data[i / 64 * 64 + k * 8 + 7 - i % 8];
    ASSERT_EQ(want[i], static_cast<float>(sum)) << i;
  }
  for (int barrier = 0; barrier < 2; ++barrier) {
    LoweredKernel without = kernel;
    int seen = 0;
    without.run.body = RewriteStmt(kernel.run.body,
                                   [&](const Stmt& s) { return IsBarrier(s) && seen++ == barrier ? MakeSeq({}) : s; });
    ASSERT_EQ(seen, 2) << text;
    RunLowered(f, without, args, error, 1);
    EXPECT_THAT(error, HasSubstr("race: threads (")) << barrier << text;
  }
}

}  // namespace
}  // namespace autotune
