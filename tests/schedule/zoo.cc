#include "tests/schedule/zoo.h"

#include "ir/interp.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ir/visit.h"
#include "te/create_prim_func.h"
#include "tests/ir/random_program.h"
#include "topi/conv.h"
#include "topi/elementwise.h"
#include "topi/matmul.h"
#include "topi/norm.h"
#include "topi/pool.h"

namespace autotune::zoo {
namespace {

using te::Placeholder;
using te::Tensor;

struct ConvTensors {
  Tensor data, weight, conv;
};

ConvTensors MakeConv(const ConvShape& s) {
  ConvTensors t;
  t.data = Placeholder("data", {1, s.h, s.w, s.ic * s.groups});
  t.weight = Placeholder("w", {s.kernel, s.kernel, s.ic, s.oc});
  topi::ConvAttrs attrs;
  attrs.stride = {s.stride, s.stride};
  attrs.dilation = {s.dilation, s.dilation};
  attrs.pad = {s.pad, s.pad, s.pad, s.pad};
  attrs.groups = s.groups;
  t.conv = topi::Conv("conv", t.data, t.weight, attrs);
  return t;
}

}  // namespace

PrimFunc ConvBiasRelu(const ConvShape& shape, bool residual) {
  auto [data, weight, conv] = MakeConv(shape);
  Tensor bias = Placeholder("bias", {shape.oc});
  std::vector<te::TensorParam> params{{data}, {weight, ParamRole::kConstant}, {bias, ParamRole::kConstant}};
  Tensor sum = topi::Add("add", conv, bias);
  if (residual) {
    Tensor other = Placeholder("residual", conv.shape());
    params.push_back({other});
    sum = topi::Add("sum", sum, other);
  }
  params.push_back({topi::Relu("out", sum), ParamRole::kOutput});
  return te::CreatePrimFunc("f", params);
}

PrimFunc Conv(const ConvShape& shape) {
  auto [data, weight, conv] = MakeConv(shape);
  return te::CreatePrimFunc("f", {{data}, {weight, ParamRole::kConstant}, {conv, ParamRole::kOutput}});
}

PrimFunc Dense(int64_t m, int64_t n, int64_t k) {
  Tensor a = Placeholder("a", {m, k}), b = Placeholder("b", {k, n}), bias = Placeholder("bias", {n});
  Tensor out = topi::Add("out", topi::MatMul("dense", a, b), bias);
  return te::CreatePrimFunc("f",
                            {{a}, {b, ParamRole::kConstant}, {bias, ParamRole::kConstant}, {out, ParamRole::kOutput}});
}

PrimFunc MaxPool(const ConvShape& s) {
  Tensor data = Placeholder("data", {1, s.h, s.w, s.oc});
  topi::PoolAttrs attrs;
  attrs.kernel = {s.kernel, s.kernel};
  attrs.stride = {s.stride, s.stride};
  attrs.pad = {s.pad, s.pad, s.pad, s.pad};
  return te::CreatePrimFunc("f", {{data}, {topi::MaxPool("pool", data, attrs), ParamRole::kOutput}});
}

PrimFunc Softmax(int64_t rows, int64_t columns) {
  Tensor x = Placeholder("x", {rows, columns});
  return te::CreatePrimFunc("f", {{x}, {topi::Softmax("softmax", x, {1}), ParamRole::kOutput}});
}

PrimFunc Elementwise(int64_t rows, int64_t columns) {
  Tensor a = Placeholder("a", {rows, columns}), b = Placeholder("b", {rows, columns});
  Tensor twice = topi::Mul("twice", a, te::Splat({1}, 2));
  Tensor out = topi::Relu("out", topi::Add("add", twice, b));
  return te::CreatePrimFunc("f", {{a}, {b}, {out, ParamRole::kOutput}});
}

Schedule Scheduled(const PrimFunc& func, const std::string& text) {
  Schedule schedule(func);
  Result<Trace> trace = ParseTrace(text);
  EXPECT_TRUE(trace.ok()) << trace.error().Text();
  if (!trace.ok()) return schedule;
  for (const Step& step : *trace) {
    auto results = schedule.Apply(step);
    EXPECT_TRUE(results.ok()) << results.error().Text();
    if (!results.ok()) break;
  }
  return schedule;
}

std::string ErrorOf(const PrimFunc& func, const std::string& text) {
  Result<Trace> trace = ParseTrace(text);
  if (!trace.ok()) return trace.error().message;
  Step last = trace->back();
  trace->pop_back();
  Schedule schedule = Scheduled(func, ToText(*trace));
  PrimFunc before = schedule.func();
  auto results = schedule.Apply(last);
  if (results.ok()) return "";
  EXPECT_TRUE(Equal(before, schedule.func()));
  EXPECT_EQ(schedule.trace().size(), trace->size());
  return results.error().message;
}

void ExpectSame(const PrimFunc& before, const PrimFunc& after, uint64_t seed) {
  Status verified = Verify(after, Dialect::kSchedulable);
  ASSERT_TRUE(verified.ok()) << verified.error().Text() << "\n" << ToText(after);
  auto parsed = ParsePrimFunc(ToText(after));
  ASSERT_TRUE(parsed.ok()) << parsed.error().Text() << "\n" << ToText(after);
  ASSERT_EQ(FirstMismatch(after, *parsed), "");
  std::vector<InterpArray> expected = test::RandomArgs(before, seed), args = expected;
  Status ran = Interpret(before, expected);
  ASSERT_TRUE(ran.ok()) << ran.error().Text();
  ran = Interpret(after, args, {.order_seed = seed});
  ASSERT_TRUE(ran.ok()) << ran.error().Text() << "\n" << ToText(after);
  for (size_t i = 0; i < args.size(); ++i) ASSERT_EQ(args[i].data, expected[i].data) << i << "\n" << ToText(after);
}

}  // namespace autotune::zoo
