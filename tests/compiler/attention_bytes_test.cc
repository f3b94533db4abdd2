// Attention of bytes as one kernel: every sketch computes the same, and the targets' instructions apply.
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/extract.h"
#include "graph/pass.h"
#include "graph/to_te.h"
#include "support/rng.h"
#include "tests/tuner/sketch_space.h"

namespace autotune::attention_of_bytes {
namespace {

using graph::Op;
using graph::ValueId;

// Heads as projections leave them. The weight of a score is a whole number that falls with its distance from the row's
// largest score, so that the order of no sum matters.
struct Attention {
  int64_t heads = 3, rows = 37, keys = 20, width = 16;
  double query_zero = 3, key_zero = -5, value_zero = 7, weight_zero = 9;
};

class Builder : public graph::GraphBuilder {
 public:
  ValueId Number(double x, DType type = DType::Float(32)) {
    return AddConstant("", graph::TensorValue::FromNumbers(type, {}, {x}));
  }
  ValueId To(ValueId v, DType type) { return Must(Op::kCast, {v}, graph::CastAttrs{type}); }
  ValueId Centered(ValueId bytes, double zero) {
    const ValueId wide = To(bytes, DType::Int(32));
    return zero == 0 ? wide : Must(Op::kSub, {wide, Number(zero, DType::Int(32))});
  }
  ValueId Heads(DType type, const Attention& a, int64_t rows, const std::vector<int64_t>& perm, double zero) {
    return Centered(Transpose(Input("", {type, {1, rows, a.heads, a.width}}), perm), zero);
  }
};

// Returns the program of the attention, and what its kernel is.
std::pair<PrimFunc, std::string> Kernel(const Attention& a, const Target& target) {
  const DType u8 = DType::UInt(8), i8 = DType::Int(8), f32 = DType::Float(32);
  Builder b;
  const ValueId query = b.Heads(u8, a, a.rows, {0, 2, 1, 3}, a.query_zero),
                key = b.Heads(i8, a, a.keys, {0, 2, 3, 1}, a.key_zero),
                value = b.Heads(i8, a, a.keys, {0, 2, 1, 3}, a.value_zero);
  ValueId y = b.To(b.Must(Op::kBatchMatmul, {query, key}), f32);
  y = b.Must(Op::kRound, {b.Must(Op::kMul, {y, b.Number(0x1p-12)})});
  const ValueId largest = b.Must(Op::kReduceMax, {y}, graph::AxesAttrs{{3}});
  y = b.Must(Op::kAdd, {b.Must(Op::kSub, {y, largest}), b.Number(255)});
  const ValueId weights = b.To(b.Must(Op::kMax, {y, b.Number(0)}), u8);
  y = b.Must(Op::kBatchMatmul, {b.Centered(weights, a.weight_zero), value});
  b.Output(b.Transpose(b.To(y, f32), {0, 2, 1, 3}), "y");
  const graph::PassEnv env{.multiplies_bytes = true};
  const graph::Graph fused = *graph::Fuse(*graph::IntegerProducts(b.Finish(), env), env);
  for (const graph::Task& task : graph::ExtractTasks(fused)) {
    const std::string label = task.Label();
    if (const size_t at = label.find("batch_matmul"); label.find("batch_matmul", at + 1) != std::string::npos)
      return {LowerSubgraph(*task.subgraph, target)->front().func, label};
  }
  return {};
}

Target Cpu(const std::string& name) {
  return *Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=" + name + " -num-cores=2");
}

std::string SketchesOf(const Attention& a, const Target& target) {
  const auto sketches = GenerateSketches(Kernel(a, target).first, target);
  EXPECT_TRUE(sketches.ok());
  std::string names;
  for (const Sketch& s : *sketches) names += s.name + "\n";
  return names;
}

TEST(AttentionOfBytes, InstructionsApply) {
  EXPECT_NE(SketchesOf({}, Cpu("znver4")).find("attention:columns"), std::string::npos);
  EXPECT_NE(SketchesOf({.keys = 21, .width = 32}, Cpu("znver4")).find("attention:columns"), std::string::npos)
      << "zeros behind the weights of a query";
  const std::string tiles = SketchesOf({.rows = 64, .keys = 64, .width = 64}, Cpu("sapphirerapids"));
  EXPECT_NE(tiles.find(":tiles"), std::string::npos) << tiles;
  EXPECT_EQ(tiles.find("attention:columns"), std::string::npos) << tiles;
  const Target arm = *Target::Parse("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1 -num-cores=2");
  EXPECT_NE(SketchesOf({}, arm).find("attention:columns"), std::string::npos);
}

TEST(AttentionOfBytes, EverySketchComputesTheSame) {
  Rng rng(45);
  const auto zero = [&](double other) { return rng.Below(2) ? other : 0; };
  const Target arm = *Target::Parse("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1 -num-cores=2");
  for (const Target& target : {Cpu("znver4"), Cpu("sapphirerapids"), arm}) {
    for (int i = 0; i < 5; ++i) {
      const Attention a = {.heads = 1 + static_cast<int64_t>(rng.Below(3)),
                           .rows = 32 + static_cast<int64_t>(rng.Below(9)),
                           .keys = i == 0 ? 19 : 16 + 4 * static_cast<int64_t>(rng.Below(3)),
                           .width = i == 0 ? 32 : 16 + 4 * static_cast<int64_t>(rng.Below(2)),
                           .query_zero = zero(3),
                           .key_zero = zero(-5),
                           .value_zero = zero(7),
                           .weight_zero = zero(9)};
      const auto [func, label] = Kernel(a, target);
      ASSERT_FALSE(label.empty());
      test::CheckSpace(func, 1, 1, target);
      if (::testing::Test::HasFailure()) FAIL() << label << ToText(func);
    }
  }
}

}  // namespace
}  // namespace autotune::attention_of_bytes
