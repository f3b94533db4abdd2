// Sketches of attention: both products and the softmax between them are in one loop over tasks. Other programs get
// other sketches.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "ir/visit.h"
#include "lower/lower.h"
#include "te/create_prim_func.h"
#include "tests/tuner/sketch_space.h"
#include "topi/elementwise.h"
#include "topi/matmul.h"
#include "topi/norm.h"

namespace autotune {
namespace {

using test::Attention;
using test::MakeAttention;

// The names of a program's sketches, the number of sketches that are one loop over tasks, and the number of all
// sketches.
struct Names {
  std::string all;
  size_t together = 0, count = 0;
};
Names NamesOf(const PrimFunc& func, int cores = 2) {
  const Target target =
      *Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=" + std::to_string(cores));
  auto sketches = GenerateSketches(func, target);
  EXPECT_TRUE(sketches.ok()) << sketches.error().Text();
  Names names;
  for (const Sketch& s : *sketches) {
    ++names.count;
    names.together += s.name.starts_with("attention");
    names.all += s.name + "\n";
  }
  return names;
}

TEST(AttentionSketch, IsOneLoopOverTasks) {
  const Names names = NamesOf(MakeAttention({.batch = {2, 3}, .queries = 32, .keys = 32, .width = 16, .depth = 16}));
  EXPECT_EQ(names.all, "attention\nattention:columns\n");
}

// With few queries, no sketch packs the keys (`attention:columns`): the copy costs more than it saves.
TEST(AttentionSketch, FewQueriesReadKeysWhereTheyAre) {
  const Names names = NamesOf(MakeAttention({.batch = {2, 3}, .queries = 2, .keys = 32, .width = 16, .depth = 16}));
  EXPECT_EQ(names.all, "attention\n");
}

// With fewer heads than cores and one query, further sketches place the products and the softmax in loops of their own,
// which divide columns among the cores, too.
TEST(AttentionSketch, FewTasksMayStayApart) {
  const Attention few = {.batch = {2}, .queries = 1, .keys = 64, .width = 16, .depth = 16};
  EXPECT_EQ(NamesOf(MakeAttention(few), 2).all, "attention\n");
  const Names names = NamesOf(MakeAttention(few), 16);
  EXPECT_EQ(names.together, 1u);
  EXPECT_GT(names.count, 1u);
  EXPECT_EQ(names.all.find("no rule places"), std::string::npos) << names.all;
}

TEST(AttentionSketch, OneKeyStaysApart) {
  const PrimFunc func = MakeAttention({.batch = {2}, .queries = 5, .keys = 1, .width = 3, .depth = 8});
  const Names names = NamesOf(func);
  EXPECT_EQ(names.together, 0u) << names.all;
  test::CheckSpace(func, 4);
}

TEST(AttentionSketch, TakesNothingElse) {
  te::Tensor x = te::Placeholder("x", {4, 8, 32}), k = te::Placeholder("k", {4, 32, 16}),
             v = te::Placeholder("v", {4, 16, 8});
  const auto together = [&](const te::Tensor& out) {
    return NamesOf(
               te::CreatePrimFunc(
                   "other",
                   {{x, ParamRole::kInput}, {k, ParamRole::kInput}, {v, ParamRole::kInput}, {out, ParamRole::kOutput}},
                   {.use_fma = true}))
        .together;
  };
  te::Tensor scores = topi::MatMul("scores", x, k);
  auto values = [&](const te::Tensor& weights) {
    return topi::Add("sum", topi::MatMul("values", weights, v), te::Splat({}, 1));
  };
  EXPECT_EQ(together(values(topi::Softmax("softmax", scores, {2}))), 1u);
  EXPECT_EQ(together(values(topi::Relu("relu", scores))), 0u);             // no softmax over rows
  EXPECT_EQ(together(values(topi::Softmax("softmax", scores, {1}))), 0u);  // the softmax is over columns
}

// The cases have rows and columns that neither vectors nor tiles divide, masks that broadcast, and keys that several
// heads share.
TEST(AttentionSketch, ComputesTheSame) {
  const Attention cases[] = {
      {.batch = {2, 2}, .queries = 16, .keys = 32, .width = 8, .depth = 16},
      {.batch = {1, 3}, .queries = 13, .keys = 19, .width = 5, .depth = 7},
      {.batch = {2}, .queries = 7, .keys = 37, .width = 3, .depth = 9, .mask = {1, 37}, .scale = 2},
      {.batch = {2, 2}, .queries = 9, .keys = 16, .width = 4, .depth = 8, .mask = {2, 1, 1, 16}, .scale = 0.5},
      {.batch = {1, 2}, .queries = 1, .keys = 48, .width = 8, .depth = 8, .mask = {1, 1, 1, 48}},
      {.batch = {1, 2, 3}, .queries = 10, .keys = 24, .width = 8, .depth = 24, .ends_in_add = true, .shared = 3},
      {.batch = {3}, .queries = 33, .keys = 5, .width = 2, .depth = 2, .mask = {33, 5}},
      {.batch = {2}, .queries = 14, .keys = 2, .width = 1, .depth = 3},
  };
  for (const Attention& c : cases) {
    const PrimFunc func = MakeAttention(c);
    const Names names = NamesOf(func);
    EXPECT_EQ(names.together, names.count) << names.all;
    test::CheckSpace(func, 6, 1);
    if (::testing::Test::HasFailure()) FAIL() << c.queries << " x " << c.keys << " x " << c.width << " x " << c.depth;
  }
}

// Heads that lie side by side are read and written in place. The keys are copied, since the elements of one key are
// adjacent. The cases have columns that fill whole squares of vectors, columns that do not, batches of heads, and
// operands that are slices of a tensor.
TEST(AttentionSketch, ReadsHeadsWhereTheyLie) {
  const Attention cases[] = {
      {.batch = {1, 3}, .queries = 16, .keys = 40, .width = 16, .depth = 8, .heads_inside = true},
      {.batch = {1, 2}, .queries = 14, .keys = 21, .width = 8, .depth = 16, .heads_inside = true, .piece = true},
      {.batch = {2, 3}, .queries = 12, .keys = 32, .width = 32, .depth = 8, .heads_inside = true, .piece = true},
      {.batch = {2, 2}, .queries = 13, .keys = 9, .width = 5, .depth = 7, .heads_inside = true},
  };
  for (const Attention& c : cases) {
    const PrimFunc func = MakeAttention(c);
    EXPECT_EQ(NamesOf(func).all, "attention:columns\n");
    test::CheckSpace(func, 6, 1);
    if (::testing::Test::HasFailure()) FAIL() << c.queries << " x " << c.keys << " x " << c.width << " x " << c.depth;
  }
}

// Sketches with separate stages compute the same.
TEST(AttentionSketch, ApartComputesTheSame) {
  const Target cores = *Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=16");
  test::CheckSpace(MakeAttention({.batch = {2}, .queries = 3, .keys = 37, .width = 5, .depth = 9, .mask = {3, 37}}), 3,
                   2, cores);
}

// Returns the bytes of all buffers that a kernel allocates.
int64_t ScratchBytes(const Stmt& s) {
  int64_t bytes = 0;
  Walk(
      s,
      [&](const Stmt& x) {
        if (const Alloc* alloc = x.As<Alloc>()) {
          int64_t size = alloc->buffer->dtype.Bytes();
          for (int64_t extent : ConstShape(alloc->buffer)) size *= extent;
          bytes += size;
        }
        return true;
      },
      nullptr);
  return bytes;
}

// A task stores the scores of only as many queries as fit a core's L2 cache. So no kernel allocates memory for all
// scores.
TEST(AttentionSketch, ScoresAreNeverStored) {
  const int64_t tokens = 1024, heads = 4;
  const PrimFunc func = MakeAttention({.batch = {heads}, .queries = tokens, .keys = tokens, .width = 64, .depth = 64});
  auto sketches = GenerateSketches(func, test::TestTarget());
  ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
  Rng rng(3);
  int plausible = 0, lowered = 0;
  for (const Sketch& sketch : *sketches) {
    for (int i = 0; i < 200; ++i) {
      const Decisions decisions = DrawDecisions(sketch, rng);
      if (!std::isfinite(DraftSeconds(sketch, decisions, test::TestTarget())) || ++plausible % 8 != 0) continue;
      Result<Schedule> schedule = Replay(func, Decide(sketch, decisions));
      ASSERT_TRUE(schedule.ok()) << schedule.error().Text();
      Result<LoweredKernel> kernel = Lower(schedule->func(), test::TestTarget());
      if (!kernel.ok()) continue;
      ++lowered;
      // The packed copy is at most as large as the keys.
      EXPECT_LE(ScratchBytes(kernel->run.body), test::TestTarget().l2_bytes + heads * tokens * 64 * 4)
          << ToText(sketch.trace);
    }
  }
  EXPECT_GT(lowered, 3);
}

}  // namespace
}  // namespace autotune
