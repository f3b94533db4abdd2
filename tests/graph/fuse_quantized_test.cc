// Kernels of quantized networks: bytes between them, softmax within rows, and equal kernels for equal blocks.
#include <gtest/gtest.h>

#include <functional>

#include "graph/extract.h"
#include "graph/pass.h"
#include "tests/graph/quantizer.h"

namespace autotune::graph {
namespace {

const Shape kRows = {16, 24};
constexpr ByteScale kFirst{0.31, 100}, kSecond{0.42, 3};

ValueId Product(Quantizer& m, ValueId x) { return m.b.Must(Op::kMatmul, {x, m.Random({24, 24})}); }
ValueId Trip(Quantizer& m, ValueId x, const ByteScale& s = kFirst) { return m.Dequantize(m.Quantize(x, s), s); }

Graph Fused(Quantizer& m, ValueId y) {
  m.b.Output(y, "y");
  const Graph g = m.b.Finish(), fused = *WholeFloats(*Fuse(g, {}), {});
  ExpectEqualOutputs(g, fused);
  return fused;
}

int BitsBetween(const std::function<ValueId(Quantizer&, ValueId)>& reader) {
  Quantizer m(7);
  const Graph fused = Fused(m, reader(m, Trip(m, Product(m, m.b.Input("x", F32(kRows))))));
  return fused.Spec(fused.nodes.front().output).dtype.bits;
}

TEST(FuseQuantized, KernelsHandOverBytes) {
  EXPECT_EQ(BitsBetween([](Quantizer& m, ValueId x) { return m.b.Transpose(x, {1, 0}); }), 8);
  EXPECT_EQ(BitsBetween([](Quantizer& m, ValueId x) { return LayerNorm(m, x); }), 8);
  EXPECT_EQ(BitsBetween([](Quantizer& m, ValueId x) { return m.b.Must(Op::kSoftmax, {x}, AxisAttrs{1}); }), 8);
  Quantizer m(7);  // the first product takes in the sum and the dequantization of its other term
  const ValueId first = Product(m, m.b.Input("z", F32(kRows)));
  const Graph fused = Fused(m, m.b.Must(Op::kAdd, {first, Trip(m, Product(m, m.b.Input("x", F32(kRows))))}));
  EXPECT_EQ(fused.nodes.size(), 2u);
  EXPECT_EQ(fused.Spec(fused.nodes.front().output).dtype.bits, 8);
}

TEST(FuseQuantized, OthersHandOverFloats) {
  EXPECT_EQ(BitsBetween([](Quantizer& m, ValueId x) { return Product(m, x); }), 32) << "a product reads floats";
  EXPECT_EQ(BitsBetween([](Quantizer&, ValueId x) { return x; }), 32) << "an output";
  EXPECT_EQ(BitsBetween([](Quantizer& m, ValueId x) {
              m.b.Output(m.b.Transpose(x, {1, 0}), "t");
              return m.b.Must(Op::kCumulate, {x}, CumulateAttrs{});
            }),
            32)
      << "one of two readers reads floats";
}

// Softmax and the layer normalization of two roundings are passes over rows.
TEST(FuseQuantized, RowsAreOneKernel) {
  Quantizer softmax(8);
  const ValueId x = Trip(softmax, softmax.b.Input("x", F32(kRows)));
  EXPECT_EQ(Fused(softmax, softmax.Quantize(softmax.b.Must(Op::kSoftmax, {x}, AxisAttrs{1}), kSecond)).nodes.size(),
            1u);
  Quantizer norm(9);
  const ValueId sum = norm.b.Must(Op::kAdd, {norm.Input("a", kRows, kFirst), norm.Input("b", kRows, kSecond)});
  EXPECT_EQ(Fused(norm, norm.Quantize(LayerNorm(norm, Trip(norm, sum)), kSecond)).nodes.size(), 1u);
  Quantizer columns(10);
  const ValueId y = Trip(columns, columns.b.Input("x", F32(kRows)));
  EXPECT_EQ(Fused(columns, columns.Relu(columns.b.Must(Op::kSoftmax, {y}, AxisAttrs{0}))).nodes.size(), 3u)
      << "columns are no rows";
}

// The blocks differ in the order of the nodes: one reads what was there before, the other what a second product makes.
TEST(FuseQuantized, EqualKernelsAreOneTask) {
  Quantizer m(11);
  const ValueId x = m.Input("x", kRows, kFirst), early = m.Input("early", kRows, kSecond);
  const ValueId one = m.b.Must(Op::kAdd, {Product(m, x), early});
  const ValueId product = Product(m, m.b.Input("z", F32(kRows)));
  const ValueId late = m.b.Must(Op::kAdd, {product, m.Dequantize(m.b.Input("late", {DType::UInt(8), kRows}), kSecond)});
  m.b.Output(late, "late");
  std::vector<Hash128> products;
  for (const Task& task : ExtractTasks(Fused(m, one)))
    if (task.Label().find("matmul") != std::string::npos) products.push_back(task.hash);
  EXPECT_EQ(products.size(), 1u);
}

}  // namespace
}  // namespace autotune::graph
