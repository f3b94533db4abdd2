// Products of computed bytes read transposed operands in place and store transposed results, as heads of attention.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "graph/extract.h"
#include "graph/pass.h"
#include "tests/graph/quantizer.h"

namespace autotune::graph {
namespace {

using Perm = std::vector<int64_t>;

// A product of matrices [.., m, k] and [.., k, n] of bytes, transposes of the graph's inputs.
struct Product {
  Perm left, right, result;  // the transposes; empty: there is none
  ByteScale x = {.zero = 3}, w = {.zero = 0, .type = DType::Int(8)};
  Shape lead = {1, 3};  // the outer dimensions
  int64_t m = 33, k = 20, n = 7;
  bool reads_left = false;   // another node reads the left operand, too
  bool gives_right = false;  // the right operand is an output of the network
};

// Returns the integers minus their zero point, as the importer makes them, from an input that the transpose turns into
// this shape.
ValueId Operand(Quantizer& q, const std::string& name, const ByteScale& s, const Shape& shape, const Perm& perm) {
  Shape source = shape;
  for (size_t d = 0; d < perm.size(); ++d) source[static_cast<size_t>(perm[d])] = shape[d];
  ValueId v = q.b.Input(name, {s.type, source});
  if (!perm.empty()) v = q.b.Transpose(v, perm);
  v = q.b.Must(Op::kCast, {v}, CastAttrs{DType::Int(32)});
  return s.zero == 0 ? v : q.b.Must(Op::kSub, {v, q.Number(s.zero, DType::Int(32))});
}

Graph Make(const Product& p) {
  Quantizer q(3);
  const auto shape = [&](int64_t rows, int64_t columns) {
    Shape all = p.lead;
    all.insert(all.end(), {rows, columns});
    return all;
  };
  const ValueId x = Operand(q, "x", p.x, shape(p.m, p.k), p.left), w = Operand(q, "w", p.w, shape(p.k, p.n), p.right);
  ValueId y = q.b.Must(Op::kBatchMatmul, {x, w});
  if (!p.result.empty()) y = q.b.Transpose(y, p.result);
  q.b.Output(y, "y");
  if (p.reads_left) q.b.Output(q.b.Must(Op::kNeg, {x}), "negative");
  if (p.gives_right) q.b.Output(w, "right");
  return q.b.Finish();
}

Graph Fused(const Graph& g, const PassEnv& env = {.multiplies_bytes = true}) {
  const Graph fused = *Fuse(*IntegerProducts(g, env), env);
  ExpectEqualOutputs(g, fused);
  return fused;
}

// Returns the operators of the kernel that multiplies.
std::string KernelOf(const Graph& fused) {
  for (const Task& task : ExtractTasks(fused))
    if (task.Label().find("batch_matmul") != std::string::npos) return task.Label();
  return "none";
}
std::string KernelOf(const Product& p) { return KernelOf(Fused(Make(p))); }

const Perm kHeads = {0, 2, 1, 3}, kTransposedHeads = {0, 2, 3, 1};

TEST(FuseBytes, ProductsReadHeadsWhereTheyLie) {
  EXPECT_EQ(KernelOf({.left = kHeads, .x = {.zero = 0}}), "transpose_batch_matmul");
  EXPECT_EQ(KernelOf({.right = kHeads, .x = {.zero = 0}}), "transpose_batch_matmul");
  EXPECT_EQ(KernelOf({.right = kTransposedHeads, .x = {.zero = 0}}), "transpose_batch_matmul");
  EXPECT_EQ(KernelOf({.left = kHeads, .right = kTransposedHeads, .result = kHeads, .x = {.zero = 0}}),
            "transpose_transpose_batch_matmul_transpose");
  EXPECT_EQ(KernelOf({.left = kHeads, .lead = {2, 3}}), "transpose_batch_matmul_cast_reduce_sum_sub_mul_add")
      << "beside a sum";
}

TEST(FuseBytes, OtherTransposesStay) {
  EXPECT_EQ(KernelOf({.left = kTransposedHeads, .x = {.zero = 0}}), "batch_matmul") << "rows are not contiguous";
  EXPECT_EQ(KernelOf({.right = {3, 1, 2, 0}, .x = {.zero = 0}}), "batch_matmul") << "nothing is contiguous";
  EXPECT_EQ(KernelOf({.result = {0, 1, 3, 2}, .x = {.zero = 0}}), "batch_matmul") << "the result has other rows";
  EXPECT_EQ(KernelOf({.result = {1, 0, 2, 3}, .x = {.zero = 0}, .lead = {2, 3}}), "batch_matmul") << "two dimensions";
  EXPECT_EQ(KernelOf({.left = kHeads, .x = {.zero = 0}, .reads_left = true}), "batch_matmul");
  EXPECT_EQ(KernelOf({.right = kHeads, .x = {.zero = 0}, .gives_right = true}), "batch_matmul");
  const Graph heads = Make({.left = kHeads, .x = {.zero = 0}});
  EXPECT_EQ(KernelOf(Fused(heads, {.fuses_attention = false, .multiplies_bytes = true})), "batch_matmul");
  EXPECT_EQ(KernelOf(Fused(heads, {})), "batch_matmul") << "no product of bytes";
}

// Returns the operators of all kernels, in alphabetical order.
std::vector<std::string> KernelsOf(const Product& p, const PassEnv& env = {.multiplies_bytes = true}) {
  std::vector<std::string> all;
  for (const Task& task : ExtractTasks(Fused(Make(p), env))) all.push_back(task.Label());
  std::ranges::sort(all);
  return all;
}
using Labels = std::vector<std::string>;

// Corrections by zero points sum rows in memory, those of transposed columns, too, in the kernel of the product.
TEST(FuseBytes, SumsJoinTheirProduct) {
  EXPECT_EQ(KernelsOf({.right = kTransposedHeads}),
            (Labels{"transpose_batch_matmul_transpose_cast_reduce_sum_sub_mul_reshape_add"}));
  EXPECT_EQ(KernelsOf({.right = {0, 1, 3, 2}}), (Labels{"transpose_batch_matmul_cast_reduce_sum_sub_mul_reshape_add"}));
  const Product rows = {.left = kHeads, .result = kHeads, .x = {.zero = 0}, .w = {.zero = 5, .type = DType::Int(8)}};
  EXPECT_EQ(KernelsOf(rows), (Labels{"transpose_batch_matmul_cast_reduce_sum_sub_mul_add_transpose"}));
  EXPECT_EQ(KernelsOf({.right = {3, 1, 2, 0}}), (Labels{"batch_matmul_cast_reduce_sum_sub_mul_add", "transpose"}));
}

TEST(FuseBytes, OtherSumsStayApart) {
  EXPECT_EQ(KernelsOf({}, {.fuses_attention = false, .multiplies_bytes = true}),
            (Labels{"batch_matmul_add", "cast_reduce_sum_sub_mul"}))
      << "no rule of the target places them";
  Quantizer q(5);
  const Shape shape = {3, 33, 20};
  const ValueId x = q.b.Input("x", {DType::UInt(8), shape}), w = q.b.Input("w", {DType::Int(8), {3, 20, 7}});
  const auto sum = [&](ValueId bytes) {
    return q.b.Must(Op::kReduceSum, {q.b.Must(Op::kCast, {bytes}, CastAttrs{DType::Int(32)})}, AxesAttrs{{2}});
  };
  const ValueId read_twice = sum(x),
                scaled = q.b.Must(Op::kMul, {sum(x), q.b.Input("s", {DType::Int(32), {3, 33, 1}})});
  ValueId y = q.b.Must(Op::kAdd, {q.b.Must(Op::kBatchMatmul, {x, w}), read_twice});
  y = q.b.Must(Op::kAdd, {y, scaled});
  q.b.Output(y, "y");
  q.b.Output(read_twice, "sum");
  EXPECT_EQ(KernelOf(Fused(q.b.Finish())), "batch_matmul_add_add") << "an output, and no sum times one number";
}

// The conversion to the other sign comes before the transpose.
TEST(FuseBytes, OtherSignsAreMovedWhereTheyAreMade) {
  EXPECT_EQ(KernelOf({.right = kTransposedHeads, .x = {.zero = 0}, .w = {.zero = 128}}), "transpose_batch_matmul");
  EXPECT_EQ(KernelOf({.left = kHeads, .x = {.zero = -128, .type = DType::Int(8)}}), "transpose_batch_matmul");
}

// Every order of three and four dimensions, with odd extents.
TEST(FuseBytes, EveryOrderComputesTheSame) {
  Rng rng(44);
  const auto drawn = [&](size_t rank) {
    Perm perm(rank);
    std::iota(perm.begin(), perm.end(), 0);
    for (size_t i = rank; i > 1; --i) std::swap(perm[i - 1], perm[rng.Below(i)]);
    return perm;
  };
  const auto scale = [&] {
    const DType type = rng.Below(2) ? DType::Int(8) : DType::UInt(8);
    return ByteScale{.zero = std::vector<double>{0, 128, -128, 77}[rng.Below(4)], .type = type};
  };
  for (const size_t rank : {3, 4}) {
    Perm perm(rank);
    std::iota(perm.begin(), perm.end(), 0);
    do {
      for (const bool left : {true, false}) {
        Product p{.left = left ? perm : drawn(rank), .right = left ? drawn(rank) : perm, .x = scale(), .w = scale()};
        if (rng.Below(2)) p.result = drawn(rank);
        p.lead = rank == 3 ? Shape{3} : Shape{1 + 2 * static_cast<int64_t>(rng.Below(2)), 3};
        p.m = 33 + 2 * static_cast<int64_t>(rng.Below(2)), p.n = 5 + 2 * static_cast<int64_t>(rng.Below(3));
        Fused(Make(p));
        if (::testing::Test::HasFailure()) FAIL() << GraphText(Make(p));
      }
    } while (std::ranges::next_permutation(perm).found);
  }
}

}  // namespace
}  // namespace autotune::graph
