// Sketches after lowering: the program computes the same after every pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "ir/interp.h"
#include "ir/text.h"
#include "ir/visit.h"
#include "lower/lower.h"
#include "schedule/replay.h"
#include "te/create_prim_func.h"
#include "tests/after_pass.h"
#include "tests/draws.h"
#include "tests/lower/refusals.h"
#include "tests/tuner/programs.h"
#include "tests/tuner/sketch_space.h"
#include "topi/elementwise.h"
#include "topi/transform.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

using test::RunInterpreted;
using test::TestTarget;

// Turns constants into inputs. Otherwise lowering moves the work on constants into a second function, `prepare`.
PrimFunc WithoutConstants(PrimFunc func) {
  for (Param& param : func.params) {
    if (param.role == ParamRole::kConstant) param.role = ParamRole::kInput;
  }
  return func;
}

// Checks random schedules of each sketch until one lowers; if all cases run, at least `draws` schedules.
void CheckLowering(const PrimFunc& program, int draws, const Target& target = TestTarget()) {
  constexpr int kMostDraws = 10;  // of schedules that are all refused
  PrimFunc func = WithoutConstants(program);
  std::string error;
  std::vector<double> expected = RunInterpreted(func, error);
  ASSERT_EQ(error, "");
  auto sketches = GenerateSketches(program, target);
  ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
  Rng rng(5 + test::DrawSeed());
  for (const Sketch& sketch : *sketches) {
    int lowered = 0;
    std::string refused;
    for (int i = 0; (lowered == 0 && i < kMostDraws) || (test::DrawsAll() && i < draws); ++i) {
      Trace trace = Decide(sketch, DrawDecisions(sketch, rng));
      Result<Schedule> schedule = Replay(func, trace);
      ASSERT_TRUE(schedule.ok()) << schedule.error().Text() << "\n" << ToText(trace);
      std::string broken;
      std::optional<PrimFunc> last;
      const PassContext context = test::SeeAfter([&](std::string_view pass, const PrimFunc& f) {
        if (!broken.empty() || (last && Equal(f, *last))) return;  // most passes leave most programs unchanged
        last = f;
        std::vector<double> got = RunInterpreted(f, error);
        if (error.empty() && got == expected) return;
        broken = "after " + std::string(pass) + ": " + error + "\n" + ToText(trace) + ToText(schedule->func()) +
                 "\nbecame\n" + ToText(f);
      });
      auto kernel = Lower(schedule->func(), target, context);
      ASSERT_EQ(broken, "");
      lowered += kernel.ok();
      if (kernel.ok()) continue;
      refused = kernel.error().Text();
      EXPECT_TRUE(IsAmong(kernel.error().message, kLoweringRefusals)) << refused << "\n" << ToText(trace);
    }
    EXPECT_GT(lowered, 0) << refused << "\n" << ToText(sketch.trace);
  }
}

TEST(Lowered, ConvolutionsComputeTheSame) {
  CheckLowering(test::ConvBiasRelu(8, 8, 8, 16, 3, {.pad = {1, 1, 1, 1}}), 3);
  CheckLowering(test::ConvBiasRelu(7, 5, 3, 20, 3, {.stride = {2, 2}, .pad = {1, 1, 1, 1}}), 2);
}

Target Vnni() { return Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -num-cores=2").value(); }

TEST(Lowered, ProductsOfBytesComputeTheSame) {
  CheckLowering(test::BytesDense(14, 40, 24), 3, Vnni());
  CheckLowering(test::BytesDense(13, 20, 12, /*is_signed=*/true), 3, Vnni());
}

// Returns how many schedules of a rule's sketches were drawn, and how many of them multiply by dot products.
std::pair<int, int> DrawnWithDots(const PrimFunc& func, const Target& target, std::string_view rule = ":streams") {
  const auto sketches = GenerateSketches(func, target);
  EXPECT_TRUE(sketches.ok());
  Rng rng(9);
  std::pair<int, int> counts;
  for (const Sketch& sketch : *sketches) {
    if (sketch.name.find(rule) == std::string::npos) continue;
    for (int i = 0; i < 10; ++i) {
      const auto schedule = Replay(func, Decide(sketch, DrawDecisions(sketch, rng)));
      EXPECT_TRUE(schedule.ok()) << schedule.error().Text();
      const auto kernel = Lower(schedule->func(), target, {});
      if (!kernel.ok()) continue;
      bool has_dots = false;
      Walk(kernel->run.body, nullptr, [&](const Expr& e) {
        has_dots |= e.As<Call>() && e.As<Call>()->op == Op::kDot;
        return true;
      });
      ++counts.first, counts.second += has_dots;
    }
  }
  return counts;
}

TEST(Lowered, OneRowOfBytesIsStreamedByDotProducts) {
  CheckLowering(test::BytesDense(1, 260, 64), 3, Vnni());
  for (const bool is_signed : {false, true}) {
    const auto [drawn, with_dots] = DrawnWithDots(test::BytesDense(1, 260, 64, is_signed), Vnni());
    EXPECT_GT(drawn, 0);
    EXPECT_EQ(with_dots, drawn);
  }
  EXPECT_EQ(DrawnWithDots(test::BytesDense(1, 260, 64), TestTarget()).second, 0) << "the target has none";
  const auto [drawn, with_dots] = DrawnWithDots(test::BytesDense(1, 270, 63), Vnni());
  EXPECT_GT(drawn, 0);
  EXPECT_EQ(with_dots, 0) << "no whole number of groups";
}

TEST(Lowered, ProductsOfComputedBytesComputeTheSame) {
  for (const bool transposed : {false, true}) {
    CheckLowering(test::ComputedBytes(2, 14, 40, 24, transposed), 3, Vnni());
    CheckLowering(test::ComputedBytes(1, 13, 20, 12, transposed), 3, Vnni());
  }
}

TEST(Lowered, ProductsOfBf16ComputeTheSame) { CheckLowering(test::Bf16Dense(14, 40, 24), 3, Vnni()); }

Target Amx() { return Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -num-cores=2").value(); }

TEST(Lowered, ProductsOfTilesComputeTheSame) {
  CheckLowering(test::BytesDense(32, 48, 24), 3, Amx());
  CheckLowering(test::BytesDense(15, 32, 12, /*is_signed=*/true), 3, Amx());
  CheckLowering(test::Bf16Dense(28, 32, 24), 3, Amx());
  for (const bool transposed : {false, true}) CheckLowering(test::ComputedBytes(2, 28, 32, 24, transposed), 3, Amx());
  CheckLowering(test::BytesConv(8, 6, 8, 16, {.pad = {1, 1, 1, 1}, .pad_value = 3}), 3, Amx());
  CheckLowering(test::BytesConv(11, 10, 4, 32, {.stride = {2, 2}, .pad = {0, 1, 1, 0}}), 3, Amx());
}

// Returns how many sketches multiply tiles. Expects that all their schedules stay products of tiles until code is made.
int64_t SketchesOfTiles(const PrimFunc& func, const Target& target = Amx()) {
  const auto sketches = GenerateSketches(func, target);
  EXPECT_TRUE(sketches.ok());
  Rng rng(11);
  int64_t count = 0;
  for (const Sketch& sketch : *sketches) {
    if (sketch.name.find(":tiles") == std::string::npos) continue;
    ++count;
    for (int i = 0; i < 20; ++i) {
      const auto schedule = Replay(func, Decide(sketch, DrawDecisions(sketch, rng)));
      EXPECT_TRUE(schedule.ok());
      const auto kernel = Lower(schedule->func(), target, {});
      EXPECT_TRUE(kernel.ok()) << kernel.error().Text() << ToText(schedule->func());
      if (!kernel.ok()) return count;
    }
  }
  return count;
}

TEST(Lowered, ProductsOfBytesUseTilesWhereTheTargetHas) {
  EXPECT_EQ(SketchesOfTiles(test::BytesDense(64, 64, 64)), 2);
  EXPECT_EQ(SketchesOfTiles(test::Bf16Dense(64, 64, 64)), 2);
  EXPECT_EQ(SketchesOfTiles(test::BytesDense(49, 80, 20)), 2) << "seven rows of a tile";
  EXPECT_EQ(SketchesOfTiles(test::BytesConv(14, 14, 32, 32, {.pad = {1, 1, 1, 1}})), 2);
  EXPECT_EQ(SketchesOfTiles(test::BytesConv(14, 14, 32, 32, {.pad = {1, 1, 1, 1}, .groups = 2})), 2);
  EXPECT_EQ(SketchesOfTiles(test::BytesConv(113, 112, 4, 16, {.stride = {2, 2}})), 2);
  EXPECT_EQ(SketchesOfTiles(test::ComputedBytes(2, 64, 64, 64)), 2);
  EXPECT_EQ(SketchesOfTiles(test::ComputedBytes(2, 8, 64, 64)), 0) << "too few rows for packing";
  EXPECT_EQ(SketchesOfTiles(test::BytesDense(64, 64, 64), Vnni()), 0) << "the target has none";
  EXPECT_EQ(SketchesOfTiles(test::BytesDense(64, 60, 64)), 0) << "no whole tiles of columns";
  EXPECT_EQ(SketchesOfTiles(test::BytesDense(64, 64, 63)), 0) << "no whole number of groups";
  EXPECT_EQ(SketchesOfTiles(test::BytesDense(17, 64, 64)), 0) << "tiles of one row";
  EXPECT_EQ(SketchesOfTiles(test::Dense(64, 64, 64)), 0) << "no small numbers";
}

TEST(Lowered, ConvolutionsOfBytesComputeTheSame) {
  CheckLowering(test::BytesConv(5, 6, 8, 24, {.pad = {1, 1, 1, 1}, .pad_value = 3}), 2, Vnni());
  CheckLowering(test::BytesConv(7, 6, 4, 20, {.stride = {2, 2}, .pad = {0, 1, 1, 0}}), 2, Vnni());
  CheckLowering(test::BytesConv(5, 6, 16, 40, {.pad = {1, 1, 1, 1}, .groups = 2, .pad_value = 3}), 2, Vnni());
  CheckLowering(test::BytesConv(8, 6, 16, 32, {.pad = {1, 1, 1, 1}, .groups = 2, .pad_value = 3}), 2, Amx());
  for (int64_t zero : {0, 3})
    CheckLowering(test::BytesConv(6, 7, 40, 40, {.pad = {1, 1, 1, 1}, .groups = 40, .pad_value = zero}), 2, Vnni());
}

TEST(Lowered, ConvolutionsOfBytesThatSkipPaddingHaveDotProducts) {
  const PrimFunc func = test::BytesConv(3, 9, 8, 32, {.pad = {1, 1, 1, 1}}, /*skips_padding=*/true);
  CheckLowering(func, 3, Vnni());
  const auto [drawn, with_dots] = DrawnWithDots(func, Vnni(), ":dots");
  EXPECT_GT(drawn, 0);
  EXPECT_EQ(with_dots, drawn);
}

// Tiles that reach beyond the last column keep their lanes side by side.
TEST(Lowered, PaddedProductsOfBytesHaveDotProducts) {
  const PrimFunc func = test::BytesDense(6, 1000, 16);
  const auto sketches = GenerateSketches(func, Vnni());
  ASSERT_TRUE(sketches.ok());
  Rng rng(9);
  int padded = 0;
  for (const Sketch& sketch : *sketches) {
    if (sketch.name.find(":dots") == std::string::npos) continue;
    for (int i = 0; i < 60; ++i) {
      const auto schedule = Replay(func, Decide(sketch, DrawDecisions(sketch, rng)));
      ASSERT_TRUE(schedule.ok()) << schedule.error().Text();
      const auto kernel = Lower(schedule->func(), Vnni(), {});
      if (!kernel.ok()) continue;
      int dots = 0;
      Walk(kernel->run.body, nullptr, [&](const Expr& e) {
        dots += e.As<Call>() && e.As<Call>()->op == Op::kDot;
        return true;
      });
      EXPECT_GT(dots, 0) << ToText(schedule->func());
      padded += ToText(schedule->func()).find("min(") != std::string::npos;
    }
  }
  EXPECT_GT(padded, 0);
}

// Returns how many sketches take the steps of the sum in groups.
int64_t SketchesWithDots(const PrimFunc& func, const Target& target) {
  const auto sketches = GenerateSketches(func, target);
  EXPECT_TRUE(sketches.ok());
  return std::ranges::count_if(*sketches, [](const Sketch& s) { return s.name.find(":dots") != std::string::npos; });
}

TEST(Lowered, ProductsOfBytesHaveDotProductsWhereTheTargetHas) {
  EXPECT_EQ(SketchesWithDots(test::BytesDense(64, 64, 64), Vnni()), 2);
  EXPECT_EQ(SketchesWithDots(test::BytesDense(2, 1024, 1024), Vnni()), 2) << "few rows and many constants, too";
  EXPECT_EQ(SketchesWithDots(test::BytesDense(64, 64, 64), TestTarget()), 0) << "the target has none";
  EXPECT_EQ(SketchesWithDots(test::ComputedBytes(2, 64, 64, 64), Vnni()), 2);
  EXPECT_EQ(SketchesWithDots(test::ComputedBytes(2, 64, 64, 64, true), Vnni()), 2);
  EXPECT_EQ(SketchesWithDots(test::ComputedBytes(2, 8, 64, 64), Vnni()), 0) << "too few rows for packing";
  EXPECT_EQ(SketchesWithDots(test::Bf16Dense(64, 64, 64), Vnni()), 2);
  EXPECT_EQ(SketchesWithDots(test::Bf16Dense(64, 64, 63), Vnni()), 0) << "no whole number of pairs";
  EXPECT_EQ(SketchesWithDots(test::Bf16Dense(64, 64, 64), TestTarget()), 0) << "the target has none";
  EXPECT_EQ(SketchesWithDots(test::BytesDense(64, 64, 63), Vnni()), 0) << "no whole number of groups";
  EXPECT_EQ(SketchesWithDots(test::Dense(64, 64, 64), Vnni()), 0) << "no bytes";
  EXPECT_EQ(SketchesWithDots(test::BytesConv(8, 8, 16, 32, {.pad = {1, 1, 1, 1}}), Vnni()), 2);
  EXPECT_EQ(SketchesWithDots(test::BytesConv(8, 8, 16, 32, {.pad = {1, 1, 1, 1}, .groups = 2}), Vnni()), 1);
  EXPECT_EQ(SketchesWithDots(test::BytesConv(8, 8, 18, 32, {}), Vnni()), 0) << "no whole number of groups";
}

TEST(Lowered, AttentionComputesTheSame) {
  auto check = [](test::Attention a, int draws) {
    a.exponentials = false;
    CheckLowering(test::MakeAttention(a), draws);
  };
  check({.batch = {2, 2}, .queries = 16, .keys = 32, .width = 8, .depth = 16}, 3);
  check({.batch = {1, 2}, .queries = 13, .keys = 19, .width = 5, .depth = 7, .mask = {13, 19}}, 3);
  check({.batch = {2}, .queries = 1, .keys = 24, .width = 8, .depth = 9}, 3);
}

TEST(Lowered, DepthwiseConvolutionsComputeTheSame) {
  CheckLowering(test::ConvBiasRelu(9, 13, 16, 16, 3, {.pad = {1, 1, 1, 1}, .groups = 16}), 6);
  CheckLowering(test::ConvBiasRelu(7, 8, 24, 24, 5, {.stride = {2, 2}, .pad = {2, 2, 2, 2}, .groups = 24}), 4);
  CheckLowering(test::ConvBiasRelu(5, 20, 8, 16, 3, {.dilation = {1, 2}, .pad = {1, 2, 1, 2}, .groups = 8}), 4);
  CheckLowering(test::ConvBiasRelu(1, 1, 8, 8, 3, {.pad = {1, 1, 1, 1}, .groups = 8}), 2);
}

TEST(Lowered, ConvolutionsOfABatchComputeTheSame) {
  CheckLowering(test::ConvBiasRelu(5, 6, 8, 24, 3, {.pad = {1, 1, 1, 1}}, "direct", 6), 3);
  CheckLowering(test::ConvBiasRelu(4, 3, 6, 20, 1, {}, "direct", 5), 2);
  CheckLowering(test::ConvBiasRelu(4, 4, 64, 24, 1, {}, "direct", 6), 2);  // with prefetches
  CheckLowering(test::ConvBiasRelu(4, 4, 8, 32, 3, {.pad = {1, 1, 1, 1}, .groups = 2}, "direct", 4), 2);
}

TEST(Lowered, ConvolutionsThatSkipPaddingComputeTheSame) {
  auto check = [](int64_t h, int64_t w, int64_t kernel, topi::ConvAttrs attrs, int64_t images) {
    CheckLowering(test::ConvBiasRelu(h, w, 8, 20, kernel, attrs, "skip_padding", images), 3);
  };
  check(2, 9, 3, {.pad = {1, 1, 1, 1}}, 1);
  check(9, 3, 5, {.pad = {2, 2, 2, 2}}, 3);  // skips columns
  check(4, 6, 4, {.stride = {2, 1}, .pad = {3, 1, 2, 0}}, 2);
  check(3, 8, 3, {.dilation = {2, 2}, .pad = {2, 2, 2, 2}}, 2);
}

TEST(Lowered, ConvolutionsAcrossGroupsComputeTheSame) {
  auto check = [](int64_t h, int64_t w, int64_t ic, int64_t oc, topi::ConvAttrs attrs, int draws) {
    CheckLowering(test::ConvBiasRelu(h, w, ic, oc, 3, attrs, "across_groups"), draws);
  };
  check(7, 9, 16, 16, {.pad = {1, 1, 1, 1}, .groups = 4}, 4);
  check(9, 8, 8, 16, {.stride = {2, 2}, .pad = {1, 1, 1, 1}, .groups = 4}, 2);
  check(7, 8, 12, 8, {.dilation = {2, 2}, .pad = {2, 2, 2, 2}, .groups = 4}, 2);
}

TEST(Lowered, ConvolutionsToFewChannelsComputeTheSame) {
  CheckLowering(test::ConvChannelsFirst({2, 5, 9, 20}, {1, 5, 3, 2}, {.stride = {2, 1}, .pad = {1, 0, 1, 1}}), 2);
  CheckLowering(test::ConvChannelsFirst({1, 3, 6, 35}, {3, 3, 1, 5}, {.stride = {1, 2}, .pad = {0, 1, 0, 2}}), 2);
}

TEST(Lowered, StridedWithoutPadding) { CheckLowering(test::ConvBiasRelu(13, 13, 3, 32, 3, {.stride = {2, 2}}), 6); }

TEST(Lowered, RowsColumnsAndTransposesComputeTheSame) {
  CheckLowering(test::ColumnSums({130, 128}, {0}), 1);
  CheckLowering(test::ColumnSums({2, 7, 30, 43}, {1, 2}), 1);
  CheckLowering(test::CenteredSquares(20, 96), 1);
  CheckLowering(test::CenteredSquares(9, 37), 1);
  CheckLowering(test::RowSums(40, 64), 1);
  CheckLowering(test::SumOfSquares({31, 37, 41}, {0, 1, 2}), 1);
  CheckLowering(test::SumOfSquares({9, 20, 130}, {0, 2}), 1);
  CheckLowering(test::SumOfSquares({12, 5, 43, 11}, {1, 3}), 1);
  CheckLowering(test::SumOfSquares({3000, 7}, {0}), 1);
  CheckLowering(test::SumOfSquares({2, 3, 9000}, {0, 2}), 1);
  CheckLowering(test::ColumnSums({16, 8, 7, 3}, {1, 2}), 1);
  CheckLowering(test::Products(2, 3, 401, 47), 1);
  CheckLowering(test::Product(3, 1, 77), 1);
  CheckLowering(test::Transposed({2, 20, 17, 16}, {0, 2, 3, 1}), 1);
  CheckLowering(test::Transposed({2, 3, 10, 33}, {0, 2, 3, 1}), 1);
  CheckLowering(test::Transposed({18, 1024}, {1, 0}), 1);  // rows lie 4 KiB apart, so tiles are copied first
}

TEST(Lowered, SelectionComputesTheSame) {
  CheckLowering(test::BestOfRows(40, 70, 9), 1);
  CheckLowering(test::BestOfRows(1, 300, 1), 1);
  CheckLowering(test::AddedRows(30, 50, 400, false), 1);  // rows are not whole vectors
  CheckLowering(test::AddedRows(30, 5, 4000, false), 1);
  CheckLowering(test::AddedRows(30, 50, 400, true), 1);
  CheckLowering(test::GatheredSums(40, 24, 90, 4), 2);
  CheckLowering(test::GatheredSums(40, 1, 90, 4), 2);
}

TEST(Lowered, PackedOperandsComputeTheSame) {
  CheckLowering(test::Product(25, 72, 12), 1);  // tiles and packed pieces overshoot
  CheckLowering(test::Product(13, 70, 5), 1);   // rows are not divided into whole pieces
  CheckLowering(test::Dense(14, 65, 8), 1);
  CheckLowering(test::ConvBiasRelu(3, 5, 4, 64, 2), 1);  // packs rows of windows (im2col)
}

TEST(Lowered, DenseLayersComputeTheSame) { CheckLowering(test::Dense(13, 24, 7), 8); }

bool ReadsRegisters(const Expr& e) {
  bool reads = false;
  Walk(e, [&](const Expr& x) {
    const Load* load = x.As<Load>();
    reads |= load && load->buffer->scope == Scope::kRegister;
    return true;
  });
  return reads;
}

struct RegisterTiles {
  int loops = 0, guarded = 0;   // numbers of innermost loops that add to a register tile: all, and with a branch inside
  std::set<std::string> homes;  // buffers in memory that are written from a register tile
};

RegisterTiles RegisterTilesOf(const Stmt& body) {
  RegisterTiles found;
  Walk(body, [&](const Stmt& s) {
    if (const Store* store = s.As<Store>()) {
      if (store->buffer->scope != Scope::kRegister && ReadsRegisters(store->value))
        found.homes.insert(store->buffer->name.str());
    }
    const For* loop = s.As<For>();
    if (!loop) return true;
    bool innermost = true, guard = false, adds = false;
    Walk(loop->body, [&](const Stmt& inner) {
      innermost &= !inner.As<For>();
      guard |= inner.As<If>() != nullptr;
      const Store* store = inner.As<Store>();
      adds |= store && store->buffer->scope == Scope::kRegister && ReadsRegisters(store->value);
      return true;
    });
    found.loops += innermost && adds;
    found.guarded += innermost && adds && guard;
    return true;
  });
  return found;
}

// Calls `check` for random draws of the program's sketches that lower to kernels with a register tile. Expects at least
// five such draws.
void ForEachLowered(const PrimFunc& program, const std::function<void(const LoweredKernel&)>& check) {
  auto sketches = GenerateSketches(program, TestTarget());
  ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
  Rng rng(6);
  int lowered = 0;
  for (const Sketch& sketch : *sketches) {
    for (int i = 0; i < 8; ++i) {
      Result<Schedule> schedule = Replay(program, Decide(sketch, DrawDecisions(sketch, rng)));
      ASSERT_TRUE(schedule.ok()) << schedule.error().Text();
      auto kernel = Lower(schedule->func(), TestTarget());
      if (!kernel.ok() || !kernel->has_register_tile) continue;
      ++lowered;
      SCOPED_TRACE(sketch.name + "\n" + ToText(schedule->trace()));
      check(*kernel);
      if (::testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(lowered, 4);
}

// The cases have sizes that no tile divides, and padding. Elements beyond the end are cut off outside the loop or
// clamped, and never guarded inside it.
TEST(Lowered, NoBranchInALoopThatAddsToARegisterTile) {
  for (const PrimFunc& program : {test::Dense(49, 70, 64), test::Product(53, 71, 12), test::Products(3, 13, 24, 9),
                                  test::ConvBiasRelu(7, 7, 8, 24, 3, {.pad = {1, 1, 1, 1}}),
                                  test::ConvBiasRelu(9, 11, 3, 20, 3, {.stride = {2, 2}, .pad = {1, 1, 1, 1}}),
                                  test::ConvBiasRelu(13, 5, 16, 40, 1)}) {
    ForEachLowered(program, [](const LoweredKernel& kernel) {
      RegisterTiles tiles = RegisterTilesOf(kernel.run.body);
      EXPECT_GT(tiles.loops, 0);
      EXPECT_EQ(tiles.guarded, 0);
    });
  }
}

// If the rows of the only operand lie a multiple of 4 KiB apart, the program copies tiles of 16 x 16 elements. Other
// programs copy nothing.
TEST(Lowered, CopiesOfTilesAreTiles) {
  te::Tensor x = te::Placeholder("x", {64, 1024}), y = te::Placeholder("y", {1024, 64});
  te::Tensor sum = topi::Add("sum", topi::Transpose("turned", x, {1, 0}), y);
  PrimFunc two = te::CreatePrimFunc("two", {{x, ParamRole::kInput}, {y, ParamRole::kInput}, {sum, ParamRole::kOutput}});
  for (const auto& [program, copies] : {std::pair{test::Transposed({64, 1024}, {1, 0}), true},
                                        {test::Transposed({1, 64, 64, 64}, {0, 2, 3, 1}), true},
                                        {test::Transposed({2, 32, 32, 64}, {0, 3, 1, 2}), false},
                                        {two, false}}) {
    auto sketches = GenerateSketches(program, TestTarget());
    ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
    Rng rng(6);
    for (const Sketch& sketch : *sketches) {
      Schedule schedule = Replay(program, Decide(sketch, DrawDecisions(sketch, rng))).value();
      LoweredKernel kernel = Lower(schedule.func(), TestTarget()).value();
      int64_t largest = 0;
      Walk(kernel.run.body, [&](const Stmt& s) {
        if (const Alloc* alloc = s.As<Alloc>()) largest = std::max(largest, ConstShape(alloc->buffer)[0]);
        return true;
      });
      EXPECT_EQ(largest, copies ? 256 : 0) << ToText(kernel.run);
    }
  }
}

// Scale, shift, residual and activation are applied to the register tile, so the sum itself is never written to memory.
TEST(Lowered, EpiloguesAreComputedOnTheRegisterTile) {
  for (const PrimFunc& program : {test::ConvResidualSwish(7, 7, 8, 24, 3), test::ConvResidualSwish(6, 6, 16, 20, 1)}) {
    ForEachLowered(program, [](const LoweredKernel& kernel) {
      EXPECT_EQ(RegisterTilesOf(kernel.run.body).homes, std::set{kernel.params.back().buffer->name.str()});
    });
  }
}

TEST(Lowered, BatchesOfProductsComputeTheSame) {
  CheckLowering(test::Products(3, 13, 24, 9), 3);
  CheckLowering(test::Products(2, 17, 5, 31), 3);
}

TEST(Lowered, StreamsComputeTheSame) { CheckLowering(test::Dense(2, 131, 128), 1); }

// Streamed, with one or more tiles of rows; and tiled since there are few columns.
TEST(Lowered, ProductsOfFloatsInBlocksComputeTheSame) {
  for (const bool in_words : {true, false}) {
    CheckLowering(test::FloatBlockProducts(1, 131, 8, 32, in_words), 2);
    CheckLowering(test::FloatBlockProducts(3, 70, 16, 16, in_words, true), 2);
    CheckLowering(test::FloatBlockProducts(2, 7, 3, 8, in_words), 2);
    CheckLowering(test::FloatBlockProducts(13, 33, 2, 24, in_words, true), 2);
    CheckLowering(test::FloatBlockProducts(19, 24, 2, 16, in_words), 2);
  }
}

TEST(Lowered, ProductsOfIntegersInBlocksComputeTheSame) {
  CheckLowering(test::BlockProducts(1, 70, 3, 32, true), 2);
  CheckLowering(test::BlockProducts(3, 33, 4, 16, true, true), 2);
  CheckLowering(test::BlockProducts(2, 64, 2, 24, false), 2);
  CheckLowering(test::BlockProducts(1, 40, 2, 20, false, true), 2);
  CheckLowering(test::BlockProducts(2, 5, 2, 16, true), 2);
}

}  // namespace
}  // namespace autotune
