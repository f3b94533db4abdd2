// Kernels of products of bytes that read transposed operands in place: every sketch computes the same, and the targets'
// instructions still apply.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "graph/extract.h"
#include "graph/pass.h"
#include "graph/to_te.h"
#include "support/rng.h"
#include "tests/tuner/sketch_space.h"

namespace autotune {
namespace {

using graph::Shape;
using graph::ValueId;
using Perm = std::vector<int64_t>;

// Products of u8 [.., m, k] and i8 [.., k, n] minus their zero points, transposes of the parameters.
struct Product {
  Perm left, right, result;  // the transposes; empty: there is none
  Shape lead;
  int64_t m, n, k;
  double x_zero = 0, w_zero = 0;
};

ValueId Operand(graph::GraphBuilder& b, DType type, Shape shape, const Perm& perm, double zero) {
  Shape source = shape;
  for (size_t d = 0; d < perm.size(); ++d) source[static_cast<size_t>(perm[d])] = shape[d];
  ValueId v = b.Input("", {type, source});
  if (!perm.empty()) v = b.Transpose(v, perm);
  v = b.Must(graph::Op::kCast, {v}, graph::CastAttrs{DType::Int(32)});
  const auto number = graph::TensorValue::FromNumbers(DType::Int(32), {}, {zero});
  return zero == 0 ? v : b.Must(graph::Op::kSub, {v, b.AddConstant("", number)});
}

// Returns the program of the group that multiplies, and what the group is.
std::pair<PrimFunc, std::string> Kernel(const Product& p, const Target& target) {
  graph::GraphBuilder b;
  Shape left = p.lead, right = p.lead;
  left.insert(left.end(), {p.m, p.k});
  right.insert(right.end(), {p.k, p.n});
  const ValueId x = Operand(b, DType::UInt(8), left, p.left, p.x_zero),
                w = Operand(b, DType::Int(8), right, p.right, p.w_zero);
  ValueId y = b.Must(graph::Op::kBatchMatmul, {x, w});
  y = b.Must(graph::Op::kCast, {y}, graph::CastAttrs{DType::Float(32)});
  if (!p.result.empty()) y = b.Transpose(y, p.result);
  b.Output(y, "y");
  const graph::PassEnv env{.multiplies_bytes = true};
  const graph::Graph fused = *graph::Fuse(*graph::IntegerProducts(b.Finish(), env), env);
  for (const graph::Task& task : graph::ExtractTasks(fused)) {
    if (task.Label().find("batch_matmul") == std::string::npos) continue;
    return {LowerSubgraph(*task.subgraph, target)->front().func, task.Label()};
  }
  return {};
}

Target Vnni() { return *Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -num-cores=2"); }
Target Amx() { return *Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -num-cores=2"); }

int64_t SketchesWith(const std::string& rule, const Product& p, const Target& target) {
  const auto sketches = GenerateSketches(Kernel(p, target).first, target);
  EXPECT_TRUE(sketches.ok());
  return std::ranges::count_if(*sketches, [&](const Sketch& s) { return s.name.find(rule) != std::string::npos; });
}

const Perm kHeads = {0, 2, 1, 3}, kTransposedHeads = {0, 2, 3, 1};

TEST(TransposedBytes, InstructionsApply) {
  for (const Perm& right : {kHeads, kTransposedHeads}) {
    const Product p{.left = kHeads, .right = right, .result = kHeads, .lead = {1, 3}, .m = 64, .n = 64, .k = 64};
    EXPECT_EQ(SketchesWith(":dots", p, Vnni()), 2);
    EXPECT_EQ(SketchesWith(":tiles", p, Amx()), 2);
    EXPECT_EQ(SketchesWith(":dots", p, test::TestTarget()), 0) << "the target has none";
    Product corrected = p;
    corrected.x_zero = 3, corrected.w_zero = -5;
    EXPECT_NE(Kernel(corrected, Vnni()).second.find("reduce_sum"), std::string::npos);
    EXPECT_EQ(SketchesWith(":dots", corrected, Vnni()), 2);
    EXPECT_EQ(SketchesWith(":tiles", corrected, Amx()), 2);
    Product odd = p;
    odd.k = 63;
    EXPECT_EQ(SketchesWith(":dots", odd, Vnni()), 2) << "zeros make it whole groups";
    odd.n = 31;
    EXPECT_EQ(SketchesWith(":dots", odd, Vnni()), 0) << "no whole number of groups, and few columns";
  }
}

TEST(TransposedBytes, EveryOrderComputesTheSame) {
  Rng rng(44);
  const auto drawn = [&](size_t rank) {
    Perm perm(rank);
    std::iota(perm.begin(), perm.end(), 0);
    for (size_t i = rank; i > 1; --i) std::swap(perm[i - 1], perm[rng.Below(i)]);
    return perm;
  };
  for (const size_t rank : {3, 4}) {
    int in_place = 0, apart = 0;
    Perm perm(rank);
    std::iota(perm.begin(), perm.end(), 0);
    do {
      for (int side = rank == 3 ? 0 : static_cast<int>(rng.Below(2)); side < 2; side += rank == 3 ? 1 : 2) {
        const bool left = side == 0;
        Product p{.left = left ? perm : drawn(rank), .right = left ? drawn(rank) : perm};
        if (rng.Below(2)) p.result = drawn(rank);
        p.lead = rank == 3 ? Shape{3} : Shape{1 + static_cast<int64_t>(rng.Below(2)), 3};
        p.m = 33 + 2 * static_cast<int64_t>(rng.Below(2)), p.n = 17 + 2 * static_cast<int64_t>(rng.Below(3)), p.k = 16;
        p.x_zero = rng.Below(2) ? 3 : 0, p.w_zero = rng.Below(2) ? -5 : 0;
        const Target target = rng.Below(2) ? Vnni() : Amx();
        const auto [func, label] = Kernel(p, target);
        ++(label.find("transpose") != std::string::npos ? in_place : apart);
        test::CheckSpace(func, 1, 1, target);
        if (::testing::Test::HasFailure()) FAIL() << label << ToText(func);
      }
    } while (std::ranges::next_permutation(perm).found);
    EXPECT_GT(in_place, 0);
    EXPECT_GT(apart, 0);
  }
}

}  // namespace
}  // namespace autotune
