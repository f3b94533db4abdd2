// Sketches through the lowering pipeline: after every pass the program still computes the same.
#include <gtest/gtest.h>

#include "ir/interp.h"
#include "ir/text.h"
#include "lower/lower.h"
#include "schedule/replay.h"
#include "tests/lower/refusals.h"
#include "tests/tuner/programs.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

using test::TestTarget;

// Constants as inputs: `prepare` would split the program in two.
PrimFunc WithoutConstants(PrimFunc func) {
  for (Param& param : func.params) {
    if (param.role == ParamRole::kConstant) param.role = ParamRole::kInput;
  }
  return func;
}

std::vector<double> RunInterpreted(const PrimFunc& func, std::string& error) {
  Rng rng(7);
  std::vector<InterpArray> args;
  for (const Param& param : func.params) {
    InterpArray array{param.buffer->dtype, ConstShape(param.buffer), {}};
    int64_t count = 1;
    for (int64_t extent : array.shape) count *= extent;
    for (int64_t i = 0; i < count; ++i)
      array.data.push_back(param.role == ParamRole::kOutput ? 0 : static_cast<double>(rng.Below(7)) - 3);
    args.push_back(std::move(array));
  }
  Status status = Interpret(func, args, {.order_seed = 3});
  if (!status.ok()) error = status.error().Text();
  return args.back().data;
}

void CheckLowering(const PrimFunc& program, int draws) {
  PrimFunc func = WithoutConstants(program);
  std::string error;
  std::vector<double> expected = RunInterpreted(func, error);
  ASSERT_EQ(error, "");
  auto sketches = GenerateSketches(program, TestTarget());
  ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
  Rng rng(5);
  for (const Sketch& sketch : *sketches) {
    int lowered = 0;
    std::string refused;
    for (int i = 0; i < draws; ++i) {
      Trace trace = Decide(sketch, DrawDecisions(sketch, rng));
      Result<Schedule> schedule = Replay(func, trace);
      ASSERT_TRUE(schedule.ok()) << schedule.error().Text() << "\n" << ToText(trace);
      PassContext context;
      std::string broken;
      context.after = [&](std::string_view pass, const PrimFunc& f) {
        if (!broken.empty()) return;
        std::vector<double> got = RunInterpreted(f, error);
        if (error.empty() && got == expected) return;
        broken = "after " + std::string(pass) + ": " + error + "\n" + ToText(trace) + ToText(schedule->func()) +
                 "\nbecame\n" + ToText(f);
      };
      auto kernel = Lower(schedule->func(), TestTarget(), context);
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

TEST(Lowered, DepthwiseConvolutionsComputeTheSame) {
  CheckLowering(test::ConvBiasRelu(9, 13, 16, 16, 3, {.pad = {1, 1, 1, 1}, .groups = 16}), 6);
  CheckLowering(test::ConvBiasRelu(7, 8, 24, 24, 5, {.stride = {2, 2}, .pad = {2, 2, 2, 2}, .groups = 24}), 4);
  CheckLowering(test::ConvBiasRelu(5, 20, 8, 16, 3, {.dilation = {1, 2}, .pad = {1, 2, 1, 2}, .groups = 8}), 4);
  CheckLowering(test::ConvBiasRelu(1, 1, 8, 8, 3, {.pad = {1, 1, 1, 1}, .groups = 8}), 2);
}

TEST(Lowered, ConvolutionsAcrossGroupsComputeTheSame) {
  auto check = [](int64_t h, int64_t w, int64_t ic, int64_t oc, topi::ConvAttrs attrs, int draws) {
    CheckLowering(test::ConvBiasRelu(h, w, ic, oc, 3, attrs, "across_groups"), draws);
  };
  check(7, 9, 16, 16, {.pad = {1, 1, 1, 1}, .groups = 4}, 4);
  check(9, 8, 8, 16, {.stride = {2, 2}, .pad = {1, 1, 1, 1}, .groups = 4}, 2);
  check(7, 8, 12, 8, {.dilation = {2, 2}, .pad = {2, 2, 2, 2}, .groups = 4}, 2);
}

TEST(Lowered, StridedWithoutPadding) { CheckLowering(test::ConvBiasRelu(13, 13, 3, 32, 3, {.stride = {2, 2}}), 6); }

TEST(Lowered, RowsColumnsAndTransposesComputeTheSame) {
  CheckLowering(test::ColumnSums({130, 128}, {0}), 1);
  CheckLowering(test::ColumnSums({2, 7, 30, 43}, {1, 2}), 1);
  CheckLowering(test::CenteredSquares(20, 96), 1);
  CheckLowering(test::CenteredSquares(9, 37), 1);
  CheckLowering(test::RowSums(40, 64), 1);
  CheckLowering(test::Transposed({2, 20, 17, 16}, {0, 2, 3, 1}), 1);
}

TEST(Lowered, PackedOperandsComputeTheSame) {
  CheckLowering(test::Product(25, 72, 12), 1);  // tiles overshoot, and so does what is packed
  CheckLowering(test::Product(13, 70, 5), 1);   // no whole pieces of rows
  CheckLowering(test::Dense(14, 65, 8), 1);
  CheckLowering(test::ConvBiasRelu(3, 5, 4, 64, 2), 1);  // packed rows: im2col
}

TEST(Lowered, DenseLayersComputeTheSame) { CheckLowering(test::Dense(13, 24, 7), 8); }

TEST(Lowered, StreamsComputeTheSame) { CheckLowering(test::Dense(2, 131, 128), 1); }

}  // namespace
}  // namespace autotune
