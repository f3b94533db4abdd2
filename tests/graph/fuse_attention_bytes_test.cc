// Attention of bytes is one kernel: the scores, their softmax and the weighted sums, with the sums that correct both
// products by zero points.
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/extract.h"
#include "graph/pass.h"
#include "tests/graph/quantizer.h"

namespace autotune::graph {
namespace {

// Attention whose products are quantized, with heads as projections leave them.
struct Attention {
  ByteScale query = {.scale = 0.01, .zero = 3}, key = {.scale = 0.02, .zero = -5, .type = DType::Int(8)};
  ByteScale value = {.scale = 0.125, .zero = 7, .type = DType::Int(8)}, weight = {.scale = 1.0 / 255, .zero = 0};
  int64_t heads = 3, rows = 40, keys = 20, width = 16;
  bool softmax = true;         // false: nothing is between the two products but quantization
  bool gives_weights = false;  // the weights are an output of the network
  bool sums_weights = false;   // the sums of the weights are one
};

// Returns integers minus their zero point.
ValueId Centered(Quantizer& q, ValueId bytes, const ByteScale& s) {
  const ValueId wide = q.b.Must(Op::kCast, {bytes}, CastAttrs{DType::Int(32)});
  return s.zero == 0 ? wide : q.b.Must(Op::kSub, {wide, q.Number(s.zero, DType::Int(32))});
}
ValueId Scaled(Quantizer& q, ValueId sums, double scale) {
  return q.b.Must(Op::kMul, {q.b.Must(Op::kCast, {sums}, CastAttrs{DType::Float(32)}), q.Number(scale)});
}

Graph Make(const Attention& a) {
  Quantizer q(3);
  const auto heads = [&](const char* name, const ByteScale& s, int64_t rows, const std::vector<int64_t>& perm) {
    const ValueId bytes = q.b.Input(name, {s.type, {1, rows, a.heads, a.width}});
    return Centered(q, q.b.Transpose(bytes, perm), s);
  };
  const ValueId query = heads("query", a.query, a.rows, {0, 2, 1, 3}), key = heads("key", a.key, a.keys, {0, 2, 3, 1}),
                value = heads("value", a.value, a.keys, {0, 2, 1, 3});
  ValueId y = Scaled(q, q.b.Must(Op::kBatchMatmul, {query, key}), a.query.scale * a.key.scale);
  const ByteScale score = {.scale = 0.05, .zero = 128};
  y = q.Dequantize(q.Quantize(y, score), score);
  if (a.softmax) y = q.b.Must(Op::kSoftmax, {y}, AxisAttrs{3});
  const ValueId weights = q.Quantize(y, a.weight);
  y = Scaled(q, q.b.Must(Op::kBatchMatmul, {Centered(q, weights, a.weight), value}), a.weight.scale * a.value.scale);
  q.b.Output(q.b.Transpose(q.Quantize(y, {.scale = 0.1, .zero = 120}), {0, 2, 1, 3}), "y");
  if (a.gives_weights) q.b.Output(weights, "weights");
  if (a.sums_weights) {
    const ValueId wide = q.b.Must(Op::kCast, {weights}, CastAttrs{DType::Int(32)});
    q.b.Output(q.b.Must(Op::kReduceSum, {wide}, AxesAttrs{{3}}), "sums");
  }
  return q.b.Finish();
}

// Returns the number of kernels of tensors. Others compute constants, which another pass would fold.
int64_t KernelsOf(const Attention& a, const PassEnv& env = {.multiplies_bytes = true}) {
  const Graph g = Make(a), fused = *Fuse(*IntegerProducts(g, env), env);
  ExpectEqualOutputs(g, fused);
  return std::ranges::count_if(
      ExtractTasks(fused), [](const Task& t) { return t.subgraph->Spec(t.subgraph->outputs[0]).NumElements() > 1; });
}

TEST(FuseAttentionOfBytes, IsOneKernel) {
  EXPECT_EQ(KernelsOf({}), 1);
  EXPECT_EQ(KernelsOf({.weight = {.scale = 1.0 / 120, .zero = 9}}), 1) << "sums of the weights and of the values";
  EXPECT_EQ(KernelsOf({.key = {.scale = 0.02, .zero = 0, .type = DType::Int(8)},
                       .value = {.scale = 0.125, .zero = 0, .type = DType::Int(8)}}),
            1)
      << "no sums";
  EXPECT_EQ(KernelsOf({.weight = {.scale = 1.0 / 120, .zero = 9}, .keys = 21, .width = 32}), 2)
      << "a kernel puts zeros behind the values";
  EXPECT_EQ(KernelsOf({.query = {.scale = 0.01, .zero = 0, .type = DType::Int(8)}}), 2)
      << "a kernel gives the queries the sign of the instruction";
}

TEST(FuseAttentionOfBytes, OthersAreSeveral) {
  EXPECT_EQ(KernelsOf({.softmax = false}), 2);
  EXPECT_EQ(KernelsOf({.gives_weights = true}), 3);
  EXPECT_GT(KernelsOf({.sums_weights = true}), 1);
  EXPECT_GT(KernelsOf({.keys = 21, .width = 16}), 2) << "columns too few to put zeros behind the terms of their sums";
  EXPECT_GT(KernelsOf({}, {.fuses_attention = false, .multiplies_bytes = true}), 1);
  EXPECT_GT(KernelsOf({}, {}), 1) << "no instruction multiplies bytes";
}

// The values of one query and one key, and lengths that are no whole groups of bytes.
TEST(FuseAttentionOfBytes, KeepsTheValuesOfAllShapes) {
  for (const int64_t rows : {1, 7, 40})
    for (const int64_t keys : {1, 3, 16, 21})
      for (const int64_t width : {1, 16, 17, 32, 33})
        for (const double zero : {0.0, 9.0})
          KernelsOf({.weight = {.scale = 1.0 / 200, .zero = zero}, .rows = rows, .keys = keys, .width = width});
}

}  // namespace
}  // namespace autotune::graph
