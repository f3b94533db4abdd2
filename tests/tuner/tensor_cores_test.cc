// Sketches for tensor cores: their results, their memory accesses, and the shapes and targets that are refused. Random
// draws with further random steps compute the same after lowering. Their results change if a barrier is removed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir/threads.h"
#include "ir/visit.h"
#include "lower/lower.h"
#include "lower/warp_accesses.h"
#include "schedule/replay.h"
#include "te/create_prim_func.h"
#include "tests/close.h"
#include "tests/ir/random_program.h"
#include "tests/lower/refusals.h"
#include "tests/lower/run_lowered.h"
#include "tests/schedule/step_source.h"
#include "topi/elementwise.h"
#include "topi/matmul.h"
#include "tuner/defaults.h"
#include "tuner/rule/rule.h"
#include "tuner/search.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;

Target Cuda(const std::string& options) {
  return Target::Parse("cuda -mtriple=x86_64-linux-gnu -arch=" + options).value();
}
Target Ampere() { return Cuda("sm_80 -tf32=1"); }

// Returns relu of a product (batch = 0) or of a batch of products. `type`: the operands' type, f32, tf32, f16 or bf16.
PrimFunc ProductOf(const std::string& type, int64_t batch, int64_t m, int64_t n, int64_t k) {
  const DType dtype = type == "tf32" ? DType::Float(32) : *DType::Parse(type);
  te::Shape left = {m, k}, right = {k, n};
  if (batch > 0) left.insert(left.begin(), batch), right.insert(right.begin(), batch);
  te::Tensor a = te::Placeholder("a", left, dtype), b = te::Placeholder("b", right, dtype);
  te::Tensor dense = topi::MatMul("dense", a, b, type == "tf32" ? topi::Rounding::kTf32 : topi::Rounding::kNone);
  te::Tensor out = topi::Relu("relu", dense);
  return te::CreatePrimFunc("f", {{a, ParamRole::kInput}, {b, ParamRole::kInput}, {out, ParamRole::kOutput}},
                            {.use_fma = true});
}

std::vector<Sketch> TensorSketches(const PrimFunc& f, const Target& target) {
  std::vector<Sketch> found;
  for (Sketch& sketch : GenerateSketches(f, target).value()) {
    if (sketch.name.find(":tensor_cores") != std::string::npos) found.push_back(std::move(sketch));
  }
  return found;
}

std::string RefusalOn(const PrimFunc& func, const Target& target) {
  SketchBuilder s(func, target);
  const std::vector<BlockView> blocks = s.Blocks();
  const Status placed = TensorCoresRule(s, *FindBlock(blocks, "dense"), 0);
  return placed.ok() ? "" : placed.error().Text();
}

int CountMma(const Stmt& s) {
  int count = 0;
  Walk(s, [&](const Stmt& x) { return count += IsMma(x), true; });
  return count;
}

TEST(TensorCoreSketches, ShapesAndTargetsAreRefusedWithTheReason) {
  for (const char* type : {"tf32", "f16", "bf16"}) {
    EXPECT_EQ(RefusalOn(ProductOf(type, 0, 64, 64, 32), Ampere()), "") << type;
    EXPECT_EQ(RefusalOn(ProductOf(type, 3, 17, 20, 16), Ampere()), "") << type;
    EXPECT_THAT(RefusalOn(ProductOf(type, 0, 64, 64, 20), Ampere()),
                HasSubstr("the sum has 20 steps, which pieces of "));
    EXPECT_THAT(RefusalOn(ProductOf(type, 0, 64, 64, 32), Cuda("sm_75")), HasSubstr("the target has no tensor cores"));
  }
  EXPECT_THAT(RefusalOn(ProductOf("f32", 0, 64, 64, 32), Ampere()),
              HasSubstr("tensor cores do not multiply operands of this type"));
  EXPECT_THAT(RefusalOn(ProductOf("tf32", 0, 64, 64, 32), Cuda("sm_80")), HasSubstr("the target does not allow TF32"));
  EXPECT_THAT(RefusalOn(ProductOf("f16", 0, 64, 64, 32), Target::Parse("opencl -mtriple=x86_64-linux-gnu").value()),
              HasSubstr("the target has no tensor cores"));
}

// Without -tf32=1 no program of f32 uses tensor cores. With it, the untuned program is the alternative that rounds.
TEST(TensorCoreSketches, Tf32NeedsPermission) {
  const PrimFunc direct = ProductOf("f32", 0, 256, 256, 256), rounded = ProductOf("tf32", 0, 256, 256, 256);
  TuneTask task;
  task.alternatives.push_back({"direct", direct});
  task.alternatives.push_back({"tf32", rounded});
  const TaskSpace space = TaskSpace::Make(task, Ampere()).value();
  const Proposal best = DefaultProposals(space, 1).at(0);
  EXPECT_EQ(space.sketches[best.sketch].alternative, 1);
  EXPECT_THAT(ToText(best.trace), HasSubstr("tensor_core("));
  EXPECT_TRUE(TensorSketches(direct, Ampere()).empty());
  EXPECT_TRUE(TensorSketches(rounded, Cuda("sm_80")).empty());
}

// If rows consist of whole vectors and sectors, and a row of a piece covers all banks, loads from shared memory have no
// bank conflicts, and all global accesses use whole sectors.
TEST(TensorCoreSketches, WarpsAccessMemoryWithoutConflicts) {
  for (const char* type : {"tf32", "f16"}) {
    const PrimFunc program = ProductOf(type, 0, 256, 256, 128);
    Rng rng(7);
    int looked = 0;
    for (const Sketch& sketch : TensorSketches(program, Ampere())) {
      for (int i = 0; i < 40; ++i) {
        const Trace trace = Decide(sketch, DrawDecisions(sketch, rng));
        const std::string text = ToText(trace);
        const auto has = [&](const char* decision) { return text.find(decision) != std::string::npos; };
        if (!has("dense_steps = 4\n")) continue;
        // Eight columns of 16 bits are half a sector.
        if (has("dense_n_warps = 1\n") && has("dense_n_matrices = 1\n")) continue;
        const Result<LoweredKernel> kernel = Lower(Replay(program, trace)->func(), Ampere());
        if (!kernel.ok()) continue;
        ++looked;
        for (const WarpAccess& access : WarpAccessesOf(kernel->run.body)) {
          // The copies into shared memory may have conflicts, since the rows that one warp copies do not cover all
          // banks.
          if (access.write && access.shared) continue;
          EXPECT_EQ(access.conflicts, 0) << access.buffer << ToText(trace);
          EXPECT_EQ(access.sectors, access.least_sectors) << access.buffer << ToText(trace);
        }
      }
    }
    EXPECT_GT(looked, 3) << type;
  }
}

bool HasAsyncWait(const Stmt& s) {
  bool found = false;
  Walk(s, [&](const Stmt& x) {
    const Evaluate* evaluate = x.As<Evaluate>();
    const Call* call = evaluate ? evaluate->value.As<Call>() : nullptr;
    return found |= call && call->op == Op::kAsyncWait, !found;
  });
  return found;
}

// Returns the program without one of its barriers.
LoweredKernel WithoutBarrier(const LoweredKernel& kernel, int which) {
  LoweredKernel without = kernel;
  int seen = 0;
  without.run.body =
      RewriteStmt(kernel.run.body, [&](const Stmt& s) { return IsBarrier(s) && seen++ == which ? MakeSeq({}) : s; });
  return without;
}

TEST(TensorCoreSketches, RandomSchedulesComputeTheSameAndNeedTheirBarriers) {
  int compared = 0, products = 0, removed = 0, redundant = 0, further = 0;
  const char* types[] = {"tf32", "f16", "bf16"};
  for (uint64_t seed = 0; seed < 60 && !HasFailure(); ++seed) {
    Rng rng(seed);
    const std::string type = types[seed % 3];
    const PrimFunc program = ProductOf(type, rng.Below(3), 1 + rng.Below(40), 1 + rng.Below(40),
                                       (type == "tf32" ? 8 : 16) * (1 + rng.Below(5)));
    const std::vector<Sketch> sketches = TensorSketches(program, Ampere());
    // An operand with one row is inlined differently, so no sketch for tensor cores applies.
    if (sketches.empty()) continue;
    const Sketch& sketch = sketches[static_cast<size_t>(rng.Below(static_cast<int64_t>(sketches.size())))];
    Result<Schedule> schedule = Replay(program, Decide(sketch, DrawDecisions(sketch, rng)));
    ASSERT_TRUE(schedule.ok()) << schedule.error().Text();
    StepSource source(seed);
    for (int i = 0; i < 6; ++i) further += schedule->Apply(source.Next(*schedule), &source.rng()).ok();
    const std::vector<InterpArray> args = test::RandomArgs(program, seed);
    std::vector<InterpArray> want = args;
    ASSERT_TRUE(Interpret(program, want).ok());
    const Result<LoweredKernel> kernel = Lower(schedule->func(), Ampere());
    if (!kernel.ok()) {
      EXPECT_TRUE(IsAmong(kernel.error().message, kGpuRefusals)) << kernel.error().Text() << ToText(schedule->func());
      continue;
    }
    std::string error;
    const std::vector<double> got = RunLowered(program, *kernel, args, error, seed);
    ASSERT_EQ(error, "") << ToText(schedule->trace()) << ToText(kernel->run);
    ++compared, products += CountMma(kernel->run.body) > 0;
    EXPECT_EQ(got, want.back().data) << "the sums must have the same order: " << ToText(schedule->trace());
    // For every second seed, remove each barrier in turn: without it, a result must change. Skip kernels without an
    // async_wait. They copy the operands of the whole sum at once, so they are not pipelined, and do not need their
    // first barrier.
    if (seed % 2 != 0 || !HasAsyncWait(kernel->run.body)) continue;
    int barriers = 0;
    Walk(kernel->run.body, [&](const Stmt& s) { return barriers += IsBarrier(s), true; });
    for (int which = 0; which < barriers; ++which) {
      bool noticed = false;
      for (uint64_t order : {1, 2, 3}) {
        const std::vector<double> without = RunLowered(program, WithoutBarrier(*kernel, which), args, error, order);
        noticed |= !error.empty() || without != got;
      }
      ++removed, redundant += !noticed;
    }
  }
  printf("%d compared, %d with tensor cores, %d further steps, %d barriers removed, %d redundant\n", compared, products,
         further, removed, redundant);
  EXPECT_GT(compared, 20);
  EXPECT_GT(products, 15);
  EXPECT_GT(removed, 8);
  EXPECT_LE(redundant * 50, removed);
}

// Sums in parts add in another order, so their results differ by rounding.
TEST(TensorCoreSketches, LongSumsAreCut) {
  for (const char* type : {"tf32", "f16"}) {
    const PrimFunc program = ProductOf(type, 0, 20, 40, 256);
    const std::vector<InterpArray> args = test::RandomArgs(program, 1);
    std::vector<InterpArray> want = args;
    ASSERT_TRUE(Interpret(program, want).ok());
    int compared = 0;
    Rng rng(3);
    for (const Sketch& sketch : TensorSketches(program, Ampere())) {
      if (sketch.name.find(":gpu_parts") == std::string::npos) continue;
      for (int i = 0; i < 3; ++i) {
        const Trace trace = Decide(sketch, DrawDecisions(sketch, rng));
        const Result<LoweredKernel> kernel = Lower(Replay(program, trace)->func(), Ampere());
        if (!kernel.ok()) continue;
        std::string error;
        const std::vector<double> got = RunLowered(program, *kernel, args, error, static_cast<uint64_t>(i));
        ASSERT_EQ(error, "") << ToText(trace) << ToText(kernel->run);
        ASSERT_GT(CountMma(kernel->run.body), 0);
        ++compared;
        ASSERT_EQ(test::Difference(got, want.back().data), "") << ToText(trace);
      }
    }
    EXPECT_GE(compared, 2) << type;
  }
}

}  // namespace
}  // namespace autotune
