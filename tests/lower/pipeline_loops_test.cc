// Pipelined loops compute the same results, with one barrier per iteration. Every barrier and every wait is needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir/threads.h"
#include "ir/verify.h"
#include "ir/visit.h"
#include "tests/ir/random_program.h"
#include "tests/lower/run_lowered.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Target Ampere() { return Target::Parse("cuda -arch=sm_80 -mtriple=x86_64-linux-gnu").value(); }
Target Turing() { return Target::Parse("cuda -arch=sm_75 -mtriple=x86_64-linux-gnu").value(); }

// Returns a kernel that sums pieces of eight elements. A thread copies an element to shared memory, and another thread
// reads it. `around`: the loop around the pipelined loop. `more`: statements at the end of the pipelined loop's body.
PrimFunc Sums(int stages, int pieces, const std::string& around = "for again in 1", const std::string& more = "") {
  std::string text = R"(func f(x: f32[256] input, out: f32[8] output) {
    alloc s: f32[256] shared
    alloc sum: f32[8] local
    for b in 1 blockIdx.x {
      for t0 in 8 threadIdx.x { block zero(w: S 8 = t0) { sum[w] = 0.0 } }
      $AROUND {
        for k in $PIECES @{pipeline=$STAGES} {
          for t1 in 8 threadIdx.x { block fill(k1: S 32 = k, w1: S 8 = t1) { s[k1 * 8 + w1] = x[k1 * 8 + w1] } }
          for t2 in 8 threadIdx.x { block use(w2: S 8 = t2, a: R 4 = again, k2: R 32 = k) { sum[w2] = sum[w2] + s[k2 * 8 + 7 - w2] } }
          $MORE
        }
      }
      for t3 in 8 threadIdx.x { block copy(w3: S 8 = t3) { out[w3] = sum[w3] } }
    }
  })";
  for (const auto& [name, value] : {std::pair<std::string, std::string>{"$AROUND", around},
                                    {"$PIECES", std::to_string(pieces)},
                                    {"$STAGES", std::to_string(stages)},
                                    {"$MORE", more}}) {
    const size_t at = text.find(name);
    text.replace(at, name.size(), value);
  }
  return ParsePrimFunc(text).value();
}

std::string Text(const PrimFunc& f, const Target& target) {
  Result<LoweredKernel> kernel = Lower(f, target);
  return kernel.ok() ? ToText(kernel->run) : kernel.error().Text();
}

// Runs the kernel in several orders of threads. Returns the first error, or "" if it sums the pieces correctly.
std::string WrongResult(const PrimFunc& f, const LoweredKernel& kernel, int pieces, int times = 1) {
  if (Status verified = Verify(kernel.run, Dialect::kLowered); !verified.ok()) return verified.error().Text();
  const std::vector<InterpArray> args = test::RandomArgs(f, 3);
  for (uint64_t seed = 0; seed < 5; ++seed) {
    std::string error;
    const std::vector<double> got = RunLowered(f, kernel, args, error, seed);
    if (!error.empty()) return error;
    for (int w = 0; w < 8; ++w) {
      double want = 0;
      for (int k = 0; k < pieces; ++k) want += times * args[0].data[static_cast<size_t>(k * 8 + 7 - w)];
      if (got[static_cast<size_t>(w)] != want) return "wrong sum";
    }
  }
  return "";
}

TEST(PipelineLoops, ComputeTheSame) {
  for (int stages = 1; stages <= 5; ++stages) {
    for (int pieces : {1, 2, 3, 4, 7, 32}) {
      for (const Target& target : {Ampere(), Turing()}) {
        const PrimFunc f = Sums(stages, pieces), again = Sums(stages, pieces, "for again in 3");
        EXPECT_EQ(WrongResult(f, Lower(f, target).value(), pieces), "") << stages << Text(f, target);
        EXPECT_EQ(WrongResult(again, Lower(again, target).value(), pieces, 3), "") << stages << Text(again, target);
      }
    }
  }
}

TEST(PipelineLoops, CopiesRunAhead) {
  const std::string text = Text(Sums(3, 32), Ampere());
  EXPECT_THAT(text, HasSubstr("local s: f32[24] shared")) << "three stages need three versions of one piece";
  EXPECT_THAT(text, HasSubstr("s[k * 8 + t0] = async(x[k * 8 + t0])")) << text;
  EXPECT_THAT(text, HasSubstr("evaluate async_wait(1)\n"));
  EXPECT_THAT(text, HasSubstr("if k_1 < 30 {\n"));
  EXPECT_THAT(text, HasSubstr("let k_next = (k_1 + 2) % 3"));
  EXPECT_THAT(Text(Sums(3, 32), Turing()), Not(HasSubstr("async")));
  EXPECT_THAT(Text(Sums(4, 3), Ampere()), HasSubstr("local s: f32[24] shared"))
      << "three pieces need at most three versions";
  EXPECT_THAT(Text(Sums(1, 32), Ampere()), Not(HasSubstr("async"))) << "a loop with one stage is not pipelined";
}

int CountBarriers(const Stmt& s) {
  int count = 0;
  Walk(s, [&](const Stmt& x) { return count += IsBarrier(x), true; });
  return count;
}

TEST(PipelineLoops, OneBarrierIsEnough) {
  EXPECT_EQ(CountBarriers(Lower(Sums(1, 32), Ampere())->run.body), 2);
  EXPECT_EQ(CountBarriers(Lower(Sums(3, 32), Ampere())->run.body), 1);
  EXPECT_EQ(CountBarriers(Lower(Sums(2, 32), Turing())->run.body), 1);
  EXPECT_EQ(CountBarriers(Lower(Sums(3, 32, "for again in 3"), Ampere())->run.body), 2)
      << "a second barrier comes before the first copies of each outer iteration";
}

bool IsAsyncOp(const Stmt& s, Op op) {
  const Evaluate* evaluate = s.As<Evaluate>();
  const Call* call = evaluate ? evaluate->value.As<Call>() : nullptr;
  return call && call->op == op;
}

// Without any one of its barriers, waits and commits, the kernel is wrong. It is also wrong if it waits for one group
// of copies less.
TEST(PipelineLoops, NothingMayBeLeftOut) {
  for (int stages : {2, 3, 4}) {
    for (const std::string around : {"for again in 1", "for again in 3"}) {
      const int times = around == "for again in 3" ? 3 : 1;
      const int pieces = 11;  // not a multiple of `stages`, so the barrier before the first copies is needed
      const PrimFunc f = Sums(stages, pieces, around);
      const LoweredKernel kernel = Lower(f, Ampere()).value();
      const auto removable = [](const Stmt& s) {
        return IsBarrier(s) || IsAsyncOp(s, Op::kAsyncWait) || IsAsyncOp(s, Op::kAsyncCommit);
      };
      int count = 0;
      Walk(kernel.run.body, [&](const Stmt& s) { return count += removable(s), true; });
      ASSERT_GE(count, 4);
      for (int which = 0; which < count; ++which) {
        LoweredKernel without = kernel;
        int seen = 0;
        Stmt removed;
        without.run.body = RewriteStmt(kernel.run.body, [&](const Stmt& s) {
          if (!removable(s) || seen++ != which) return s;
          removed = s;
          return MakeSeq({});
        });
        EXPECT_NE(WrongResult(f, without, pieces, times), "") << ToText(removed) << ToText(without.run);
      }
      LoweredKernel hasty = kernel;
      hasty.run.body = RewriteStmt(
          kernel.run.body, [&](const Stmt& s) { return IsAsyncOp(s, Op::kAsyncWait) ? MakeAsyncWait(stages - 1) : s; });
      EXPECT_NE(WrongResult(f, hasty, pieces, times), "") << ToText(hasty.run);
    }
  }
}

TEST(PipelineLoops, WhatCannotBePipelinedIsRefused) {
  const std::string fill = "for t4 in 8 threadIdx.x { block more(k4: S 32 = k, w4: S 8 = t4) { ";
  EXPECT_THAT(Text(Sums(2, 4, "for again in 1", fill + "s[k4 * 8 + w4] = 1.0 } }"), Ampere()),
              HasSubstr("loop k cannot be pipelined: s is written after the copies, too"));
  EXPECT_THAT(Text(Sums(2, 4, "for again in 1", fill + "out[w4] = s[k4 * 8 + w4] } }"), Ampere()),
              HasSubstr("async_wait"));
}

// If each thread reads only elements that it copied itself, it needs no barrier.
TEST(PipelineLoops, ThreadsWithoutExchangeDoNotWait) {
  const PrimFunc f = ParsePrimFunc(R"(func f(x: f32[64] input, out: f32[8] output) {
    alloc s: f32[64] shared
    for b in 1 blockIdx.x { for t in 8 threadIdx.x { for k in 8 @{pipeline=3} {
      for c in 1 { block fill(k1: S 8 = k, w1: S 8 = t) { s[k1 * 8 + w1] = x[k1 * 8 + w1] } }
      for d in 1 {
        block use(w2: S 8 = t, k2: R 8 = k) { init { out[w2] = 0.0 } out[w2] = out[w2] + s[k2 * 8 + w2] }
      }
    } } }
  })")
                         .value();
  const LoweredKernel kernel = Lower(f, Ampere()).value();
  EXPECT_EQ(CountBarriers(kernel.run.body), 0) << ToText(kernel.run);
  EXPECT_THAT(ToText(kernel.run), HasSubstr("async_wait(1)"));
  const std::vector<InterpArray> args = test::RandomArgs(f, 3);
  std::string error;
  const std::vector<double> got = RunLowered(f, kernel, args, error, 1);
  ASSERT_EQ(error, "");
  for (int w = 0; w < 8; ++w) {
    double want = 0;
    for (int k = 0; k < 8; ++k) want += args[0].data[static_cast<size_t>(k * 8 + w)];
    EXPECT_EQ(got[static_cast<size_t>(w)], want);
  }
}

}  // namespace
}  // namespace autotune
