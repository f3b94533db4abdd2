// Compiles random programs and schedules with the PTX emitter, runs the code on this machine, and compares the results
// with the interpreter's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "ir/float_math.h"
#include "schedule/replay.h"
#include "support/cpu_features.h"
#include "te/create_prim_func.h"
#include "tests/close.h"
#include "tests/codegen/gpu_on_host.h"
#include "tests/codegen/kernel.h"
#include "tests/codegen/ptxas.h"
#include "tests/draws.h"
#include "tests/ir/random_program.h"
#include "tests/lower/refusals.h"
#include "tests/schedule/case.h"
#include "tests/schedule/step_source.h"
#include "topi/reduce.h"

namespace autotune {
namespace {

using zoo::Checker;

constexpr int kSteps = 30;  // steps that are attempted in each schedule
constexpr const char* kRejections[] = {
    R"(register buffer \S+ cannot be kept in registers: its accesses overlap in part)",
    R"(a register tile cannot be kept in registers: its code uses local memory)",
    R"(a block (has|needs) \d+ .*; the target has .*)",
};

Target Gpu() { return Target::Parse("cuda -arch=sm_80 -mtriple=x86_64-linux-gnu -max-threads=64").value(); }

// Returns the number of random schedules: AUTOTUNE_GPU_SCHEDULES from the environment, or 200.
int NumCases() {
  const char* asked = std::getenv("AUTOTUNE_GPU_SCHEDULES");
  return asked ? std::atoi(asked) : 200;
}
// Returns the seed before that of the first case.
int FirstSeed() { return static_cast<int>(test::DrawSeed() % 1'000'000) * 1000; }

// Runs `f`, a schedule of the program `plain`, on the host. Returns a description of the first error, or "" if there is
// none or `f` is refused for a listed reason. Increments `ran` if the code has run.
std::string Wrong(const PrimFunc& f, const PrimFunc& plain, std::vector<InterpArray> args, uint64_t seed, int& ran) {
  Result<LoweredKernel> lowered = Lower(f, Gpu());
  if (!lowered.ok()) return IsAmong(lowered.error().message, kGpuRefusals) ? "" : lowered.error().Text();
  Result<KernelObject> object = CompileKernel(*lowered, Gpu(), {.keep_assembly = true});
  if (!object.ok()) return object.error().Text();
  if (!object->rejected.empty()) return IsAmong(object->rejected, kRejections) ? "" : object->rejected;
  auto library = test::GpuOnHost::Make(*object);
  if (!library.ok()) return library.error().Text();
  std::vector<InterpArray> want = args;
  if (Status interpreted = Interpret(plain, want); !interpreted.ok()) return interpreted.error().Text();
  if (Status done = (*library)->Run(plain, args, seed); !done.ok()) return done.error().Text();
  ++ran;
  for (size_t i = 0; i < args.size(); ++i) {
    if (plain.params[i].role != ParamRole::kOutput) continue;
    // The inputs are small integers, so most results are exact. The tolerance is for Winograd transforms and elementary
    // functions, which round.
    const std::string difference = test::Difference(args[i].data, want[i].data, test::kClose, want[i].dtype);
    if (!difference.empty()) return difference;
  }
  return "";
}

TEST(GpuOnHost, RandomPrograms) {
  if (!Cpu().has_fma) GTEST_SKIP() << "this machine has no fma";
  int ran = 0;
  for (int seed = FirstSeed() + 1; seed <= FirstSeed() + NumCases() && !HasFailure(); ++seed) {
    const PrimFunc f = test::MakeRandomProgram(static_cast<uint64_t>(seed));
    EXPECT_EQ(Wrong(f, f, test::RandomArgs(f, 3), static_cast<uint64_t>(seed), ran), "") << "seed " << seed << "\n"
                                                                                         << ToText(f);
  }
  EXPECT_GT(ran, NumCases() * 9 / 10);
}

TEST(GpuOnHost, RandomSchedules) {
  if (!Cpu().has_fma) GTEST_SKIP() << "this machine has no fma";
  int ran = 0;
  for (int seed = FirstSeed(); seed < FirstSeed() + NumCases() && !HasFailure(); ++seed) {
    Rng rng(static_cast<uint64_t>(seed));
    const zoo::Workload workload = zoo::DrawWorkload(rng);
    StepSource source(static_cast<uint64_t>(seed));
    Schedule schedule(MakeProgram(workload));
    for (int i = 0; i < kSteps; ++i) (void)schedule.Apply(source.Next(schedule), &source.rng());
    const Checker checker(workload, 3);
    EXPECT_EQ(Wrong(schedule.func(), checker.func(), checker.integers(), static_cast<uint64_t>(seed), ran), "")
        << "seed " << seed << "\n"
        << ToText(schedule.func());
  }
  EXPECT_GT(ran, NumCases() / 3);  // the other schedules are refused
}

// The threads of a block share the terms of each sum (tuner/rule/gpu_sums.cc). The trace is that of a sketch. A block
// computes 32 columns, so the second block has columns beyond the 40 that exist.
TEST(GpuOnHost, ThreadsShareASum) {
  if (!Cpu().has_fma) GTEST_SKIP() << "this machine has no fma";
  te::Tensor x = te::Placeholder("x", {512, 40});
  te::Tensor y = topi::ReduceAxes("sums", x, {0}, te::Combiner::kSum);
  const PrimFunc f = te::CreatePrimFunc("rows", {{x, ParamRole::kInput}, {y, ParamRole::kOutput}}, {.use_fma = true});
  constexpr const char* kTrace = R"(
reorder([sums_i1, sums_i0])
sample_categorical([8, 16], []) -> sums_columns = 8
sample_categorical([8, 16, 32], []) -> sums_threads = 8
split(sums_i0, [?, 8, sums_threads]) -> sums_i0_0, sums_i0_1, sums_i0_2
reorder([sums_i0_2, sums_i1, sums_i0_0, sums_i0_1])
rfactor(sums_i0_2, axis=0) -> sums_shared, sums_combine0, sums_combine1
cache_write(sums_shared, global) -> sums_shared_local, sums_shared_copy, sums_shared_copy_i0, sums_shared_copy_i1
split(sums_combine1, [?, sums_columns, 4]) -> sums_combine1_0, sums_combine1_1, sums_combine1_2
reorder([sums_combine1_0, sums_combine1_1, sums_combine0, sums_combine1_2])
decompose_reduction(sums, sums_combine0) -> sums_init, sums_combine1_2_init
vectorize(sums_combine1_2_init)
unroll(sums_combine0)
vectorize(sums_combine1_2)
compute_at(sums_shared_copy, sums_combine1_0) -> sums_shared_copy_r0, sums_shared_copy_r1
split(sums_shared_copy_r1, [sums_columns, 4]) -> sums_shared_copy_r1_0, sums_shared_copy_r1_1
reorder([sums_shared_copy_r0, sums_shared_copy_r1_0, sums_shared_copy_r1_1])
vectorize(sums_shared_copy_r1_1)
compute_at(sums_shared, sums_combine1_0) -> sums_shared_r0, sums_shared_r1, sums_shared_r2, sums_shared_r3
split(sums_shared_r0, [sums_columns, 4]) -> sums_shared_r0_0, sums_shared_r0_1
reorder([sums_shared_r1, sums_shared_r0_0, sums_shared_r2, sums_shared_r3, sums_shared_r0_1])
decompose_reduction(sums_shared, sums_shared_r2) -> sums_shared_init, sums_shared_r0_1_init
vectorize(sums_shared_r0_1_init)
unroll(sums_shared_r3)
vectorize(sums_shared_r0_1)
reverse_compute_at(sums_store, sums_combine1_0) -> sums_store_i0
split(sums_store_i0, [sums_columns, 4]) -> sums_store_i0_0, sums_store_i0_1
reorder([sums_store_i0_0, sums_store_i0_1])
vectorize(sums_store_i0_1)
bind(sums_combine1_0, blockIdx.x)
set_scope(sums_shared, shared)
bind(sums_combine1_1, threadIdx.x)
bind(sums_shared_copy_r0, threadIdx.y)
bind(sums_shared_copy_r1_0, threadIdx.x)
bind(sums_shared_r1, threadIdx.y)
bind(sums_shared_r0_0, threadIdx.x)
bind(sums_store_i0_0, threadIdx.x)
set_scope(sums_shared_local, register)
set_scope(sums_out_1, register)
)";
  const PrimFunc scheduled = Replay(f, ParseTrace(kTrace).value())->func();
  int ran = 0;
  EXPECT_EQ(Wrong(scheduled, f, test::RandomArgs(f, 3), 1, ran), "");
  EXPECT_EQ(ran, 1);
  for (const char* arch : {"sm_75", "sm_80", "sm_90"}) {
    const KernelObject object = Compile(scheduled, Target::Parse("cuda -arch=" + std::string(arch)).value()).value();
    EXPECT_NE(object.source.find("ld.global.nc.v4.f32"), std::string::npos) << object.source;
    EXPECT_EQ(test::PtxasComplaint(object.source, arch), "") << object.source;
  }
}

// Runs `value` of x[v] for each number by the PTX emitter, and compares with the interpreter.
void CheckConversion(const std::string& from, const std::string& to, const std::string& value, DType type,
                     const std::vector<double>& numbers) {
  const std::string n = std::to_string(numbers.size());
  const PrimFunc f = Parse("func convert(x: " + from + "[" + n + "] input, y: " + to + "[" + n +
                           "] output) { for b in " + std::to_string(numbers.size() / 256) +
                           " blockIdx.x { for t in 32 threadIdx.x { for i in 8 vectorized { block c(v: S " + n +
                           " = b * 256 + t * 8 + i) { y[v] = " + value + " } } } } }");
  const std::string text = from + " " + value;
  const DType to_type = f.params[1].buffer->dtype;
  std::vector<InterpArray> args = {
      {type, {static_cast<int64_t>(numbers.size())}, numbers},
      {to_type, {static_cast<int64_t>(numbers.size())}, std::vector<double>(numbers.size())}};
  std::vector<InterpArray> want = args;
  ASSERT_TRUE(Interpret(f, want).ok());
  const KernelObject object = CompileKernel(Lower(f, Gpu()).value(), Gpu(), {.keep_assembly = true}).value();
  auto library = test::GpuOnHost::Make(object);
  ASSERT_TRUE(library.ok()) << library.error().Text();
  ASSERT_TRUE((*library)->Run(f, args, 1).ok());
  for (size_t i = 0; i < numbers.size(); ++i) {
    ASSERT_TRUE(SameValue(args[1].data[i], want[1].data[i]))
        << text << " of " << numbers[i] << ": " << args[1].data[i] << ", not " << want[1].data[i];
  }
}

// Every number of 16 bits; and f32 numbers around each of them and around each midpoint between two, with infinities,
// NaN and denormal numbers.
TEST(GpuOnHost, ConversionsOfHalvesAreExact) {
  const std::vector<std::string>& present = HostCpuFeatures();
  if (std::find(present.begin(), present.end(), "f16c") == present.end())
    GTEST_SKIP() << "this machine has no conversions of f16";
  constexpr int kCount = 65536;
  for (DType half : {DType::Float(16), DType::BFloat16()}) {
    const std::string name = half.Text();
    std::vector<double> all, middles, below, above;
    for (int bits = 0; bits < kCount; ++bits) all.push_back(FloatFromBits(static_cast<uint64_t>(bits), half));
    for (int i = 0; i < kCount; ++i) {
      const double a = all[static_cast<size_t>(i)], b = all[static_cast<size_t>(std::min(i + 1, kCount - 1))];
      const auto middle = static_cast<float>(std::isfinite(a) && std::isfinite(b) ? (a + b) / 2 : a * 1.001);
      middles.push_back(middle);
      below.push_back(std::nextafter(middle, -INFINITY));
      above.push_back(std::nextafter(middle, INFINITY));
    }
    CheckConversion(name, "f32", "f32(x[v])", half, all);
    for (const char* relu : {"(max(0.0, f32(x[v])))", "(max(f32(x[v]), 0.0))", "(min(f32(x[v]), 6.0))",
                             "(select(f32(x[v]) < 1.0, f32(x[v]), 0.5))", "(max(0.1, f32(x[v])))"})
      CheckConversion(name, name, name + relu, half, all);
    for (const auto& numbers : {all, middles, below, above}) {
      CheckConversion("f32", name, name + "(x[v])", DType::Float(32), numbers);
      CheckConversion("f32", "f32", "tf32(x[v])", DType::Float(32), numbers);
    }
  }
}

// The program needs two barriers. If either is removed, the random order of the threads makes the result wrong.
TEST(GpuOnHost, AMissingBarrierShows) {
  if (!Cpu().has_fma) GTEST_SKIP() << "this machine has no fma";
  const PrimFunc f = Parse(R"(func turns(x: f32[4, 32] input, y: f32[4, 32] output) {
    alloc s: f32[4, 32] shared
    for b in 1 blockIdx.x {
      for k in 4 {
        for t in 32 threadIdx.x { block a(v: S 4 = k, w: S 32 = t) { s[v, w] = x[v, w] } }
        for t1 in 32 threadIdx.x { block b(v1: S 4 = k, w1: S 32 = t1) { y[v1, w1] = s[v1, 31 - w1] } }
      }
    }
  })");
  int ran = 0;
  EXPECT_EQ(Wrong(f, f, SmallIntegers(f, 3), 1, ran), "");
  EXPECT_EQ(ran, 1);
  KernelObject object = Compile(f, Gpu(), {.keep_assembly = true}).value();
  std::vector<InterpArray> want = SmallIntegers(f, 3);
  ASSERT_TRUE(Interpret(f, want).ok());
  const std::string call = "call void @llvm.nvvm.barrier0()";
  for (int which = 0; which < 2; ++which) {
    KernelObject without = object;
    size_t at = without.llvm_ir.find(call);
    if (which == 1) at = without.llvm_ir.find(call, at + 1);
    ASSERT_NE(at, std::string::npos) << object.llvm_ir;
    const size_t begin = without.llvm_ir.rfind('\n', at) + 1, end = without.llvm_ir.find('\n', at) + 1;
    without.llvm_ir.erase(begin, end - begin);
    std::vector<InterpArray> got = SmallIntegers(f, 3);
    ASSERT_TRUE(test::GpuOnHost::Make(without).value()->Run(f, got, 1).ok());
    EXPECT_NE(got[1].data, want[1].data) << which;
  }
}

}  // namespace
}  // namespace autotune
