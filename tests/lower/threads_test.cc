// The pass merge_threads: every thread runs all of its stages and waits at barriers where it must. The interpreter
// gives the same results for the lowered and the original program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/interp.h"
#include "ir/text.h"
#include "ir/threads.h"
#include "ir/verify.h"
#include "ir/visit.h"
#include "lower/lower.h"
#include "lower/passes.h"
#include "tests/ir/random_program.h"
#include "tests/lower/refusals.h"
#include "tests/schedule/case.h"
#include "tests/schedule/step_source.h"
#include "tests/schedule/zoo.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;

Target Cpu() { return Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -mattr=+avx2,+fma").value(); }

Target Gpu() { return Target::Parse("opencl -mtriple=x86_64-linux-gnu").value(); }

// Lowers up to the pass merge_threads. Buffers still have their shapes, so the message of a race names the element.
Result<PrimFunc> Lowered(const PrimFunc& f) {
  const std::span<const LoweringPass> all = GpuPipeline();
  size_t count = 1;
  while (std::string_view(all[count - 1].name) != "merge_threads") ++count;
  const Target gpu = Gpu();
  const PassContext context;
  return RunPasses(all.first(count), f, "", {gpu, context, nullptr, {}});
}

// Returns the program without its n-th barrier; nothing if it has fewer.
std::optional<PrimFunc> WithoutBarrier(PrimFunc f, int n) {
  int seen = 0;
  f.body = RewriteStmt(f.body, [&](const Stmt& s) { return IsBarrier(s) && seen++ == n ? MakeSeq({}) : s; });
  return seen > n ? std::optional(f) : std::nullopt;
}

// Lowers the schedule and interprets it in several orders of threads. Returns the first error, or "".
std::string Wrong(const zoo::Workload& workload, const Schedule& schedule) {
  zoo::Checker checker(workload, 3);
  auto lowered = Lowered(schedule.func());
  if (!lowered.ok()) return IsAmong(lowered.error().message, kGpuRefusals) ? "" : "refused";
  Status verified = Verify(*lowered, Dialect::kLowered);
  if (!verified.ok()) return verified.error().Text();
  for (uint64_t seed : {0, 1, 2}) {
    std::vector<InterpArray> args = checker.integers();
    Status ran = Interpret(*lowered, args, {.order_seed = seed});
    if (!ran.ok()) return ran.error().Text();
    std::string difference = checker.CompareIntegers(args);
    if (!difference.empty()) return difference;
  }
  return "";
}

TEST(LowerThreads, RandomSchedulesKeepTheMeaning) {
  int bound = 0, barriers = 0;
  for (uint64_t seed = 0; seed < 600 && !HasFailure(); ++seed) {
    Rng rng(seed);
    zoo::Case c{zoo::DrawWorkload(rng), {}};
    StepSource source(seed);
    Schedule schedule(MakeProgram(c.workload));
    for (int i = 0; i < 30; ++i) (void)schedule.Apply(source.Next(schedule), &source.rng());
    if (!HasThreads(schedule.func().body)) continue;
    ++bound;
    auto lowered = Lowered(schedule.func());
    barriers += lowered.ok() && HasBarrier(lowered->body);
    std::string wrong = Wrong(c.workload, schedule);
    if (wrong.empty()) continue;
    c.trace = schedule.trace();
    zoo::Case least = Shrink(c, Wrong);
    Schedule shrunk = zoo::ApplyLegal(MakeProgram(least.workload), least.trace);
    auto again = Lowered(shrunk.func());
    ADD_FAILURE() << Wrong(least.workload, shrunk) << "\n"
                  << ToText(least) << ToText(shrunk.func()) << (again.ok() ? ToText(*again) : "");
  }
  printf("%d with threads, %d of them with barriers\n", bound, barriers);
  EXPECT_GT(bound, 100);
  EXPECT_GT(barriers, 5);
}

std::vector<InterpArray> Outputs(const PrimFunc& f, uint64_t seed, std::string* error) {
  auto args = test::RandomArgs(f, 7);
  Status ran = Interpret(f, args, {.order_seed = seed});
  *error = ran.ok() ? "" : ran.error().Text();
  return args;
}

// Makes kernels of random stages that exchange elements of shared buffers in loops and branches. A stage runs on all
// threads, on those along one axis, or on one thread.
class StageSource {
 public:
  explicit StageSource(uint64_t seed) : rng_(seed) {}
  std::string Program() {
    std::string text = "func f(x: i32[16] input, out: i32[16] output) {\n";
    for (const char* s : {"s0", "s1", "s2"}) text += std::string("alloc ") + s + ": i32[8] shared\n";
    text += "for b in 2 blockIdx.x {\n";
    for (const char* s : {"s0", "s1", "s2"}) text += OfAll(std::string(s) + "[AT] = x[b * 8 + AT]");
    text += Stages(0);
    return text + OfAll("out[b * 8 + AT] = s0[AT] + s1[AT] * 3i32 + s2[AT] * 5i32") + "} }\n";
  }

 private:
  std::string Number(int64_t n) { return std::to_string(rng_.Below(n)); }
  std::string Fresh(const std::string& base) { return base + std::to_string(count_++); }
  // Returns a stage for the threads of both axes, of one axis, or for one thread. AT becomes the index of the thread's
  // own element.
  std::string Of(bool x, bool y, std::string stage) {
    std::string t = Fresh("t"), u = Fresh("u"), place = "(" + (x ? t + " * 2" : "0") + " + " + (y ? u : "0") + ")";
    for (size_t at; (at = stage.find("AT")) != std::string::npos;) stage.replace(at, 2, place);
    if (y) stage = "for " + u + " in 2 threadIdx.y { " + stage + " }";
    if (x) stage = "for " + t + " in 4 threadIdx.x { " + stage + " }";
    return stage + "\n";
  }
  std::string OfAll(const std::string& stage) { return Of(true, true, stage); }
  std::string Stage() {
    int64_t to = rng_.Below(3), from = (to + 1 + rng_.Below(2)) % 3;  // a stage reads no buffer that it writes
    std::string own = "s" + std::to_string(to) + "[(AT + " + Number(8) + ") % 8]";
    std::string read = "s" + std::to_string(from) + "[(AT + " + Number(8) + ") % 8]";
    return Of(rng_.Below(4), rng_.Below(4), own + " = " + own + " * 3i32 + " + read);
  }
  std::string Stages(int depth) {
    std::string text;
    for (int64_t i = 1 + rng_.Below(3); i > 0; --i) {
      int64_t kind = depth < 3 ? rng_.Below(6) : 5;
      if (kind < 2) {
        text += "for " + Fresh("k") + " in " + std::to_string(rng_.Below(4)) + " {\n" + Stages(depth + 1) + "}\n";
      } else if (kind == 2) {
        text += "if b < 1 {\n" + Stages(depth + 1) + "}";
        text += rng_.Below(2) ? " else {\n" + Stages(depth + 1) + "}\n" : "\n";
      } else {
        text += Stage();
      }
    }
    return text;
  }

  Rng rng_;
  int count_ = 0;
};

TEST(LowerThreads, RandomStagesKeepTheMeaning) {
  int barriers = 0, caught = 0;
  for (uint64_t seed = 0; seed < 150 && !HasFailure(); ++seed) {
    auto f = ParsePrimFunc(StageSource(seed).Program());
    ASSERT_TRUE(f.ok()) << f.error().Text() << StageSource(seed).Program();
    auto lowered = Lowered(*f);
    ASSERT_TRUE(lowered.ok()) << lowered.error().Text() << ToText(*f);
    Status verified = Verify(*lowered, Dialect::kLowered);
    ASSERT_TRUE(verified.ok()) << verified.error().Text() << ToText(*lowered);
    std::string error;
    auto want = Outputs(*f, 0, &error);
    ASSERT_EQ(error, "") << ToText(*f);
    for (uint64_t order : {0, 1, 2}) {
      auto got = Outputs(*lowered, order, &error);
      ASSERT_EQ(error, "") << ToText(*f) << ToText(*lowered);
      ASSERT_EQ(got[1].data, want[1].data) << ToText(*f) << ToText(*lowered);
    }
    // Not every removed barrier is noticed: some protect elements of one thread only, or are in a branch that is not
    // taken.
    for (int i = 0; auto without = WithoutBarrier(*lowered, i); ++i) {
      Outputs(*without, 1, &error);
      ++barriers;
      caught += error.find("race: threads (") != std::string::npos;
    }
  }
  printf("%d barriers; removing one makes threads race in %d cases\n", barriers, caught);
  EXPECT_GT(barriers, 200);
  EXPECT_GT(caught, barriers / 4);
}

// A matrix product. The schedule kTiled copies tiles of both operands to shared memory, and gives each thread its own
// sums.
constexpr std::string_view kProduct = R"(func f(a: f32[13, 9] input, b: f32[9, 10] input, out: f32[13, 10] output) {
  for i in 13 { for j in 10 { for k in 9 {
    block mm(vi: S 13 = i, vj: S 10 = j, vk: R 9 = k) {
      init { out[vi, vj] = 0.0 }
      out[vi, vj] = out[vi, vj] + a[vi, vk] * b[vk, vj]
    }
  } } }
})";

constexpr std::string_view kTiled = R"(
cache_write(mm, global) -> acc, copy, copy_i, copy_j
split(i, [?, 4, 2]) -> i_0, i_1, i_2
split(j, [?, 5]) -> j_0, j_1
split(k, [?, 4]) -> k_0, k_1
reorder([i_0, j_0, k_0, i_1, j_1, i_2, k_1])
cache_read(mm, a, shared) -> as
cache_read(mm, b, shared) -> bs
compute_at(bs, k_0) -> bs_k, bs_j
compute_at(as, k_0) -> as_i, as_k
reverse_compute_at(copy, j_0) -> ci, cj
split(ci, [4, 2]) -> ci_0, ci_1
reorder([ci_0, cj, ci_1])
split(as_i, [4, 2]) -> as_i1, as_i0
reorder([bs_j, bs_k])
bind(i_0, blockIdx.y)
bind(j_0, blockIdx.x)
bind(as_i1, threadIdx.y)
bind(bs_j, threadIdx.x)
bind(i_1, threadIdx.y)
bind(j_1, threadIdx.x)
bind(ci_0, threadIdx.y)
bind(cj, threadIdx.x)
set_scope(acc, local)
)";

// Replaces the shared buffers by one tile of the reduction, as lowering does to save memory. Each tile overwrites the
// tile before.
PrimFunc WithTilesOnly(PrimFunc f) {
  auto in_tile = [](const Buffer& buffer, const std::vector<Expr>& indices) {
    std::vector<Expr> inside;
    for (const Expr& e : indices) {
      inside.push_back(buffer->scope == Scope::kShared ? Substitute(e, {{"k_0", Expr(0)}}) : e);
    }
    return inside;
  };
  f.body = RewriteStmt(
      f.body,
      [&](const Stmt& s) {
        const Store* store = s.As<Store>();
        return store ? MakeStmt(Store{store->buffer, in_tile(store->buffer, store->indices), store->value}) : s;
      },
      [&](const Expr& e) {
        const Load* load = e.As<Load>();
        return load ? MakeLoad(load->buffer, in_tile(load->buffer, load->indices)) : e;
      });
  return f;
}

TEST(LowerThreads, WaitWhereTheyMustAndOnlyThere) {
  PrimFunc f = ParsePrimFunc(kProduct).value();
  Schedule schedule = zoo::Scheduled(f, std::string(kTiled));
  zoo::ExpectSame(f, schedule.func());
  auto lowered = Lowered(schedule.func());
  ASSERT_TRUE(lowered.ok()) << lowered.error().Text();
  EXPECT_TRUE(Verify(*lowered, Dialect::kLowered).ok()) << Verify(*lowered).error().Text();
  std::string text = ToText(*lowered), error;
  auto want = Outputs(f, 0, &error);
  ASSERT_EQ(error, "");
  const PrimFunc tiles = WithTilesOnly(*lowered);
  for (const PrimFunc& g : {PrimFunc(*lowered), tiles}) {
    for (uint64_t seed : {0, 1, 2}) {
      auto got = Outputs(g, seed, &error);
      ASSERT_EQ(error, "") << ToText(g);
      EXPECT_EQ(got[2].data, want[2].data) << ToText(g);
    }
  }
  // The loop has two barriers, one before the tiles are read and one before the next tiles overwrite them. Both are
  // needed.
  int count = 0;
  for (; auto without = WithoutBarrier(tiles, count); ++count) {
    Outputs(*without, 1, &error);
    EXPECT_THAT(error, HasSubstr("race: threads (blockIdx.x = ")) << ToText(*without);
  }
  EXPECT_EQ(count, 2) << text;
  // Lowering for a CPU refuses the program.
  EXPECT_EQ(Lower(schedule.func(), Cpu()).error().Text(),
            "buffer acc has scope local, but a CPU runs no grids of threads: use global or register");
  EXPECT_EQ(Lower(zoo::Scheduled(f, "bind(i, blockIdx.x)").func(), Cpu()).error().Text(),
            "loop i is bound to blockIdx.x, but a CPU runs no grids of threads: use parallel");
}

// A barrier may be in a branch only if all threads of the block take the branch or none does.
TEST(LowerThreads, DoNotWaitUnderTheirOwnConditions) {
  auto two_stages = [](const std::string& condition) {
    return ParsePrimFunc(
               "func f(x: f32[8] input, out: f32[8] output) {\n alloc s: f32[8] shared\n for b in 2 blockIdx.x { "
               "for t in 4 threadIdx.x { block z(vz: S 4 = t) { s[vz] = 0.0 } } for ty in 2 threadIdx.y { if " +
               condition +
               " {\n for u in 4 threadIdx.x { block p(vp: S 8 = b * 4 + u) { s[vp] = x[vp] } }\n"
               "for w in 4 threadIdx.x { block q(vq: S 8 = b * 4 + w) { out[vq] = s[vq] } } } } } }")
        .value();
  };
  EXPECT_TRUE(Lowered(two_stages("b < 1")).ok());
  EXPECT_THAT(Lowered(two_stages("ty < 1")).error().Text(),
              HasSubstr("threads would have to wait for each other under a condition that differs between them"));
}

// In a loop that writes and then reads shared memory, threads wait twice per iteration: before they read, and before
// the next iteration overwrites elements that other threads may still read.
TEST(LowerThreads, WaitBetweenIterations) {
  auto f = [](const std::string& next) {
    return ParsePrimFunc(
               "func f(x: f32[3, 4] input, out: f32[3, 4] output) {\n alloc s: f32[3, 4] shared\n"
               "for b in 1 blockIdx.x { for k in 3 {\n"
               "for t in 4 threadIdx.x { block p(k1: S 3 = k, v: S 4 = t) { s[" +
               next +
               ", v] = x[k1, v] } }\n"
               "for u in 4 threadIdx.x { block q(k2: S 3 = k, w: S 4 = u) { out[k2, w] = s[" +
               (next == "k1" ? "k2" : next) + ", 3 - w] } } } } }")
        .value();
  };
  for (const char* place : {"0", "k1"}) {
    PrimFunc program = f(place);
    auto lowered = Lowered(program);
    ASSERT_TRUE(lowered.ok()) << lowered.error().Text();
    std::string error;
    Outputs(*lowered, 1, &error);
    EXPECT_EQ(error, "") << ToText(*lowered);
    // Barrier 1 comes before a row is read. Barrier 0 comes before the next iteration writes, and is needed only if all
    // iterations use the same row.
    ASSERT_TRUE(WithoutBarrier(*lowered, 1)) << ToText(*lowered);
    ASSERT_FALSE(WithoutBarrier(*lowered, 2)) << ToText(*lowered);
    Outputs(*WithoutBarrier(*lowered, 1), 1, &error);
    EXPECT_THAT(error, HasSubstr("race: threads ("));
    Outputs(*WithoutBarrier(*lowered, 0), 1, &error);
    EXPECT_EQ(error.empty(), std::string("k1") == place) << error;
  }
}

TEST(LowerThreads, WhatCannotBeMergedIsRefused) {
  auto error = [](const std::string& body) {
    auto lowered = Lowered(
        ParsePrimFunc("func f(x: f32[8] input, n: index[1] input, out: f32[8] output) { for b in 2 blockIdx.x { " +
                      body + " } }")
            .value());
    return lowered.ok() ? "" : lowered.error().message;
  };
  const std::string stage = "for t in 4 threadIdx.x { out[b * 4 + t] = x[b * 4 + t] }";
  EXPECT_EQ(error(stage), "");
  EXPECT_EQ(error("if b < 1 { " + stage + " }"), "");
  EXPECT_EQ(error("for k in 1 { " + stage + " }"), "");
  EXPECT_EQ(error("let c = b { " + stage + " }"), "a loop over threads is in the scope of a `local` or a `let`");
  EXPECT_EQ(error("local s: f32[4] shared { " + stage + " }"),
            "a loop over threads is in the scope of a `local` or a `let`");
  EXPECT_EQ(error("{ local s: f32[4] shared s[0] = 1.0 } " + stage), "a shared buffer is declared inside a kernel");
  EXPECT_EQ(error("{ local s: f32[4] s[0] = 1.0 } " + stage), "");
  EXPECT_EQ(error("if n[0] < 1 { " + stage + " }"), "a value in memory decides whether a loop over threads runs");
  EXPECT_EQ(error("for k in n[0] { " + stage + " }"), "a value in memory decides whether a loop over threads runs");
  EXPECT_EQ(error("for t in 4 threadIdx.x { evaluate barrier() out[b * 4 + t] = x[b * 4 + t] }"),
            "the program has barriers already, so its stages cannot be found");
}

}  // namespace
}  // namespace autotune
