// The register-tiled sketch, on convolutions and dense layers whose sizes its tiles do not divide.
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>

#include "ir/text.h"
#include "ir/visit.h"
#include "schedule/replay.h"
#include "tests/schedule/sketch.h"
#include "tests/schedule/zoo.h"

namespace autotune {
namespace {

void CheckSketch(const PrimFunc& f, const std::string& text, int samples) {
  auto trace = ParseTrace(text);
  ASSERT_TRUE(trace.ok()) << trace.error().Text();
  Rng rng(7);
  for (int i = 0; i < samples; ++i) {
    auto schedule = Replay(f, *trace, {.rng = &rng});
    ASSERT_TRUE(schedule.ok()) << schedule.error().Text();
    SCOPED_TRACE(ToText(schedule->trace()));
    zoo::ExpectSame(f, schedule->func(), i + 1);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Sketch, Convolutions) {
  std::string inlined = "compute_inline(add)\n" + Sketch({});
  CheckSketch(zoo::ConvBiasRelu({.h = 7, .w = 7, .ic = 3, .oc = 20}), inlined, 8);
  CheckSketch(zoo::ConvBiasRelu({.h = 9, .w = 6, .ic = 5, .oc = 33, .stride = 2}), inlined, 8);
  CheckSketch(zoo::ConvBiasRelu({.h = 9, .w = 11, .ic = 4, .oc = 8, .dilation = 2}), inlined, 8);
  CheckSketch(zoo::ConvBiasRelu({.h = 3, .w = 3, .ic = 1, .oc = 1, .pad = 0}), inlined, 3);
  CheckSketch(zoo::ConvBiasRelu({.h = 5, .w = 4, .ic = 7, .oc = 13}, true), "compute_inline(sum)\n" + inlined, 8);
}

TEST(Sketch, OneByOneAndDense) {
  SketchNames one_by_one;
  one_by_one.reduce = "";
  CheckSketch(zoo::ConvBiasRelu({.h = 7, .w = 5, .ic = 12, .oc = 24, .kernel = 1, .pad = 0}),
              "compute_inline(add)\n" + Sketch(one_by_one), 8);
  SketchNames dense{.anchor = "dense",
                    .weight = "b",
                    .last = "out",
                    .batch = "",
                    .m = "dense_m",
                    .oc = "dense_n",
                    .k = "dense_k",
                    .reduce = "",
                    .weight_rank = 2};
  std::string text = Sketch(dense);
  CheckSketch(zoo::Dense(1, 10, 7), text, 4);
  CheckSketch(zoo::Dense(23, 41, 9), text, 8);
}

// The padded input is computed at the root, with its own loops, or per tile, where each parallel iteration has its own
// rows.
TEST(Sketch, PaddingWhereverItIsComputed) {
  std::string text = "compute_inline(add)\n" + Sketch({}) + R"(
sample_compute_location(conv_pad) -> at
compute_at(conv_pad, at) -> p_n, p_h, p_w, p_c
parallel(p_h)
split(p_c, [?, 8]) -> p_v, p_lane
vectorize(p_lane)
)";
  CheckSketch(zoo::ConvBiasRelu({.h = 7, .w = 7, .ic = 3, .oc = 20}), text, 8);
  CheckSketch(zoo::ConvBiasRelu({.h = 9, .w = 6, .ic = 9, .oc = 8, .stride = 2}), text, 8);
}

// Windows without a reduction over channels: vectors of channels, and a row of outputs in registers.
TEST(Sketch, DepthwiseAndPools) {
  const std::string text = R"(
sample_tile($A_w, n=2, max_inner=6, multiple_of=1) -> w_t
sample_tile($A_c, n=2, max_inner=16, multiple_of=8) -> c_t
cache_write($A, register) -> acc, store
split($A_w, w_t) -> w_0, w_1
split($A_c, c_t) -> c_0, c_1
split(c_1, [?, 8]) -> c_v, lane
reorder([$A_h, w_0, c_0, $A_kh, $A_kw, w_1, c_v, lane])
fuse([$A_n, $A_h]) -> f
pad_block($A)
reverse_compute_at(store, c_0) -> s_n, s_h, s_w, s_c
decompose_reduction($A, $A_kh)
parallel(f)
unroll(w_1)
vectorize(lane)
vectorize(lane_init)
split(s_c, [?, 8]) -> s_v, s_lane
vectorize(s_lane)
)";
  std::string pool = Replaced(text, "$A", "pool");
  CheckSketch(zoo::MaxPool({.h = 9, .w = 7, .oc = 12, .kernel = 3, .stride = 2}), pool, 6);
  CheckSketch(zoo::MaxPool({.h = 6, .w = 6, .oc = 5, .kernel = 2, .stride = 2, .pad = 0}), pool, 6);
  // A depthwise convolution computes its elements in one block and stores them in another.
  PrimFunc depthwise = zoo::ConvBiasRelu({.h = 7, .w = 9, .ic = 1, .oc = 20, .groups = 20});
  std::string conv = Replaced(text, "$A", "conv");
  conv = Replaced(conv, "cache_write(conv, register) -> acc, store\n",
                  "set_scope(conv_out, register)\ncompute_inline(add)\n");
  conv = Replaced(conv, "reverse_compute_at(store", "reverse_compute_at(out");
  CheckSketch(depthwise, conv, 6);
}

// Without an epilogue, the convolution is computed on fused axes. A second block copies the result to the output's
// axes, tile by tile.
TEST(Sketch, NoEpilogue) {
  SketchNames names{.last = "conv_store"};
  CheckSketch(zoo::Conv({.h = 7, .w = 5, .ic = 4, .oc = 12}),
              Replaced(Sketch(names), "set_scope(conv_out", "set_scope(conv_out_1"), 6);
}

// Tests the check itself: ExpectSame must fail for a program that adds where it should multiply.
TEST(Sketch, TheCheckFindsAWrongProgram) {
  static PrimFunc f = zoo::Dense(5, 9, 4), wrong = f;
  wrong.body = RewriteStmt(f.body, nullptr, [](const Expr& e) {
    const Binary* b = e.As<Binary>();
    return b && b->op == BinaryOp::kMul && e.dtype().IsFloat() ? b->a + b->b : e;
  });
  ASSERT_FALSE(Equal(f, wrong));
  EXPECT_FATAL_FAILURE(zoo::ExpectSame(f, wrong), "Expected equality");
}

}  // namespace
}  // namespace autotune
