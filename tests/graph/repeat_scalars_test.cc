// Dynamic quantization makes numbers that follow from a few others. The kernels that read such numbers compute them
// again. The kernels of extrema do not depend on shapes. Results stay the same.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "graph/extract.h"
#include "graph/pass.h"
#include "tests/graph/quantizer.h"

namespace autotune::graph {
namespace {

constexpr DType kBytes = DType::UInt(8), kFloats = DType::Float(32);

struct Quantized {
  ValueId bytes = -1, scale = -1, zero = -1;
};

class DynamicQuantizer : public Quantizer {
 public:
  using Quantizer::Quantizer;
  ValueId Extremum(Op op, ValueId x) {
    std::vector<int64_t> axes;
    for (int i = 0; i < b.Spec(x).rank(); ++i) axes.push_back(i);
    return b.Reshape(b.Must(op, {x}, AxesAttrs{axes}), {});
  }
  // Quantizes by the range of the data, as the importer does.
  Quantized Dynamic(ValueId x) {
    const ValueId low = b.Must(Op::kMin, {Extremum(Op::kReduceMin, x), Number(0)});
    const ValueId high = b.Must(Op::kMax, {Extremum(Op::kReduceMax, x), Number(0)});
    const ValueId scale = b.Must(Op::kDiv, {b.Must(Op::kSub, {high, low}), Number(255)});
    const ValueId offset = b.Must(Op::kSub, {Number(0), b.Must(Op::kDiv, {low, scale})});
    const ValueId zero = b.Must(Op::kRound, {b.Must(Op::kClip, {offset}, ClipAttrs{0, 255})});
    ValueId y = b.Must(Op::kAdd, {b.Must(Op::kRound, {b.Must(Op::kDiv, {x, scale})}), zero});
    y = b.Must(Op::kMin, {b.Must(Op::kMax, {y, Number(0)}), Number(255)});
    return {b.Must(Op::kCast, {y}, CastAttrs{kBytes}), scale, zero};
  }
  // A product of rows of floats and constants, and a product of its columns' scales.
  ValueId Product(ValueId x, ValueId scale) {
    const ValueId y = b.Must(Op::kMatmul, {x, Random({b.Spec(x).shape.back(), 24})});
    return b.Must(Op::kMul, {y, b.Must(Op::kMul, {scale, Random({24})})});
  }
  Graph Finish(ValueId y) {
    b.Output(y, "y");
    return b.Finish();
  }
};

int KernelsOf(const Graph& g) { return CountOps(g, Op::kFused); }

Graph Fused(const Graph& g) { return *Fuse(*ShareCommonSubexpressions(g, {}), {}); }
Graph Repeated(const Graph& g) {
  const Graph now = *RepeatScalars(Fused(g), {.repeats_scalars = true});
  ExpectEqualOutputs(g, now);
  return now;
}

// Quantizes rows and multiplies the bytes.
Graph DynamicProduct(int64_t rows) {
  DynamicQuantizer m(3);
  const Quantized x = m.Dynamic(m.b.Input("x", F32({rows, 16})));
  const ValueId floats = m.b.Must(Op::kCast, {x.bytes}, CastAttrs{kFloats});
  m.b.Output(x.bytes, "bytes");
  return m.Finish(m.Product(m.b.Must(Op::kSub, {floats, x.zero}), x.scale));
}

TEST(RepeatScalars, KernelsComputeThemAgain) {
  const Graph now = Repeated(DynamicProduct(32));
  EXPECT_EQ(KernelsOf(now), 5) << GraphText(now);  // two extrema, the quantization, its way back, and the product
  for (const Node& node : now.nodes) {
    const auto nodes = [&](Op op) { return node.op == Op::kFused ? CountOps(*node.body, op) : 0; };
    const bool quantizes = nodes(Op::kRound) == 2;
    EXPECT_TRUE(!quantizes || nodes(Op::kDiv) == 3) << "the scale is computed once, and divides twice";
  }
}

TEST(RepeatScalars, OthersAreKernels) {
  const Graph few = DynamicProduct(128), many = DynamicProduct(129);
  EXPECT_EQ(KernelsOf(Repeated(many)), KernelsOf(Repeated(few)) + 1) << "many rows share the scales of columns";
  const Graph fused = Fused(few);
  EXPECT_EQ(GraphText(*RepeatScalars(fused, {})), GraphText(fused)) << "the target computes nothing again";
  // y = x f(max(x)) for several f.
  const auto kernels = [](const std::function<ValueId(DynamicQuantizer&, ValueId)>& f) {
    DynamicQuantizer m(4);
    const ValueId x = m.b.Input("x", F32({32, 16}));
    return KernelsOf(Repeated(m.Finish(m.b.Must(Op::kMul, {x, f(m, m.Extremum(Op::kReduceMax, x))}))));
  };
  const auto additions = [&](int count) {
    return kernels([=](DynamicQuantizer& m, ValueId v) {
      for (int i = 0; i < count; ++i) v = m.b.Must(Op::kAdd, {m.b.Must(Op::kAbs, {v}), m.Number(1)});
      return v;
    });
  };
  EXPECT_EQ(additions(16), 2);
  EXPECT_EQ(additions(17), 3) << "too much work";
  EXPECT_EQ(kernels([](DynamicQuantizer& m, ValueId v) { return m.b.Must(Op::kErf, {v}); }), 3) << "not cheap";
  EXPECT_EQ(kernels([](DynamicQuantizer& m, ValueId v) {
              const ValueId row = m.b.Must(Op::kAdd, {m.b.Reshape(v, {1, 1}), m.Number(1)});
              return m.b.Reshape(m.b.Must(Op::kMatmul, {row, m.Random({1, 1})}), {});
            }),
            4)
      << "a product reads it as a matrix";
}

// The label of a kernel says what it does with tensors.
TEST(RepeatScalars, LabelsLeaveNumbersOut) {
  std::set<std::string> labels;
  for (const Task& task : ExtractTasks(Repeated(DynamicProduct(32)))) labels.insert(task.Label());
  EXPECT_TRUE(labels.contains("div_round_add_max_min_cast")) << ::testing::PrintToString(labels);
  EXPECT_TRUE(labels.contains("matmul_mul_mul")) << ::testing::PrintToString(labels);
  labels.clear();
  for (const Task& task : ExtractTasks(Fused(DynamicProduct(32)))) labels.insert(task.Label());
  EXPECT_TRUE(labels.contains("max_sub_div")) << "a kernel of one number: " << ::testing::PrintToString(labels);
}

TEST(RepeatScalars, WhatIsAnOutputStaysOne) {
  DynamicQuantizer m(5);
  const Quantized x = m.Dynamic(m.b.Input("x", F32({32, 16})));
  m.b.Output(x.scale, "scale");
  EXPECT_EQ(KernelsOf(Repeated(m.Finish(x.bytes))), 4);
}

// Returns the number of tasks of two tensors of these shapes.
size_t TasksOf(const Shape& a, const Shape& b, const std::function<ValueId(DynamicQuantizer&, ValueId)>& f) {
  DynamicQuantizer m(6);
  m.b.Output(f(m, m.b.Input("a", F32(a))), "one");
  const Graph g = m.Finish(f(m, m.b.Input("b", F32(b))));
  const Graph now = *FlatKernels(*RepeatScalars(Fused(g), {.repeats_scalars = true}), {});
  ExpectEqualOutputs(g, now);
  return ExtractTasks(now).size();
}

TEST(FlatKernels, DoNotDependOnTheShape) {
  const auto quantize = [](DynamicQuantizer& m, ValueId x) { return m.Dynamic(x).bytes; };
  EXPECT_EQ(TasksOf({32, 16}, {2, 16, 16}, quantize), 3u);
  EXPECT_EQ(TasksOf({32, 16}, {32, 17}, quantize), 6u) << "another number of elements";
  const auto elements = [](DynamicQuantizer& m, ValueId x) { return m.Relu(x); };
  EXPECT_EQ(TasksOf({32, 16}, {2, 16, 16}, elements), 1u);
}

// A tensor of one element has no axis to reduce once its shape is left out.
TEST(FlatKernels, KeepTensorsOfOneElement) {
  const auto quantize = [](DynamicQuantizer& m, ValueId x) { return m.Dynamic(x).bytes; };
  EXPECT_EQ(TasksOf({1, 1}, {32, 16}, quantize), 6u);
}

TEST(FlatKernels, OthersKeepTheirShapes) {
  const auto rows = [](DynamicQuantizer& m, ValueId x) {
    const ValueId row = m.Random({16});
    return m.b.Must(Op::kMul, {m.b.Must(Op::kAdd, {x, row}), m.Extremum(Op::kReduceMax, x)});
  };
  EXPECT_EQ(TasksOf({32, 16}, {2, 16, 16}, rows), 3u) << "a row is added; only the extrema are equal";
  const auto sums = [](DynamicQuantizer& m, ValueId x) { return m.Extremum(Op::kReduceSum, x); };
  EXPECT_EQ(TasksOf({32, 16}, {2, 16, 16}, sums), 2u) << "it is no extremum";
}

}  // namespace
}  // namespace autotune::graph
