// Sketches of attention: both products and the softmax between them in one loop over tasks, and programs that are none.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/tuner/sketch_space.h"

namespace autotune {
namespace {

struct Attention {
  te::Shape batch;
  int64_t queries, keys, width, depth;
  te::Shape mask = {};  // empty: none
  double scale = 1;     // of scores
  bool ends_in_add = false;
  int64_t shared = 1;  // heads that share keys, the last dimension of `batch`
};

te::Shape Joined(te::Shape a, std::initializer_list<int64_t> b) {
  a.insert(a.end(), b);
  return a;
}

// softmax(q * k * scale + mask) * v, as the graph's kernels are lowered.
PrimFunc Make(const Attention& a) {
  te::Shape shared = a.batch;
  if (a.shared > 1) shared.back() = 1;
  te::Tensor q = te::Placeholder("q", Joined(a.batch, {a.queries, a.width})),
             k = te::Placeholder("k", Joined(shared, {a.width, a.keys})),
             v = te::Placeholder("v", Joined(shared, {a.keys, a.depth}));
  std::vector<te::TensorParam> params = {{q, ParamRole::kInput}, {k, ParamRole::kInput}, {v, ParamRole::kInput}};
  te::Tensor s = topi::MatMul("scores", q, k);
  if (a.scale != 1) s = topi::Mul("scaled", s, te::Splat({}, a.scale));
  if (!a.mask.empty()) {
    te::Tensor mask = te::Placeholder("mask", a.mask);
    params.push_back({mask, ParamRole::kInput});
    s = topi::Add("masked", s, mask);
  }
  const topi::SoftmaxFactors f = topi::FactorsOfSoftmax("softmax", s, {s.rank() - 1});
  te::Tensor out = topi::Mul("weighted", f.scale, topi::MatMul("values", f.exp, v));
  if (a.ends_in_add) out = topi::Add("shifted", out, te::Splat({}, 1));
  params.push_back({out, ParamRole::kOutput});
  return te::CreatePrimFunc("attention", params, {.use_fma = true});
}

// The names of the sketches, one after the other, and how many of them are one loop over tasks.
struct Names {
  std::string all;
  size_t together = 0, count = 0;
};
Names NamesOf(const PrimFunc& func, int cores = 2) {
  const Target target =
      *Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=" + std::to_string(cores));
  auto sketches = GenerateSketches(func, target);
  EXPECT_TRUE(sketches.ok()) << sketches.error().Text();
  Names names;
  for (const Sketch& s : *sketches) {
    ++names.count;
    names.together += s.name.starts_with("attention");
    names.all += s.name + "\n";
  }
  return names;
}

TEST(AttentionSketch, IsOneLoopOverTasks) {
  const Names names = NamesOf(Make({.batch = {2, 3}, .queries = 32, .keys = 32, .width = 16, .depth = 16}));
  EXPECT_EQ(names.all, "attention\nattention:columns\n");
}

// A copy of the keys that few rows read costs more than it saves.
TEST(AttentionSketch, FewQueriesReadKeysWhereTheyAre) {
  const Names names = NamesOf(Make({.batch = {2, 3}, .queries = 2, .keys = 32, .width = 16, .depth = 16}));
  EXPECT_EQ(names.all, "attention\n");
}

// With fewer heads than cores and one query, the products' columns are shared out, too.
TEST(AttentionSketch, FewTasksMayStayApart) {
  const Attention few = {.batch = {2}, .queries = 1, .keys = 64, .width = 16, .depth = 16};
  EXPECT_EQ(NamesOf(Make(few), 2).all, "attention\n");
  const Names names = NamesOf(Make(few), 16);
  EXPECT_EQ(names.together, 1u);
  EXPECT_GT(names.count, 1u);
  EXPECT_EQ(names.all.find("no rule places"), std::string::npos) << names.all;
}

TEST(AttentionSketch, TakesNothingElse) {
  te::Tensor x = te::Placeholder("x", {4, 8, 32}), k = te::Placeholder("k", {4, 32, 16}),
             v = te::Placeholder("v", {4, 16, 8});
  const auto together = [&](const te::Tensor& out) {
    return NamesOf(
               te::CreatePrimFunc(
                   "other",
                   {{x, ParamRole::kInput}, {k, ParamRole::kInput}, {v, ParamRole::kInput}, {out, ParamRole::kOutput}},
                   {.use_fma = true}))
        .together;
  };
  te::Tensor scores = topi::MatMul("scores", x, k);
  auto values = [&](const te::Tensor& weights) {
    return topi::Add("sum", topi::MatMul("values", weights, v), te::Splat({}, 1));
  };
  EXPECT_EQ(together(values(topi::Softmax("softmax", scores, {2}))), 1u);
  EXPECT_EQ(together(values(topi::Relu("relu", scores))), 0u);             // no passes over rows
  EXPECT_EQ(together(values(topi::Softmax("softmax", scores, {1}))), 0u);  // over columns
}

// Rows and columns that no vector and no tile divides; masks that broadcast; keys that heads share.
TEST(AttentionSketch, ComputesTheSame) {
  const Attention cases[] = {
      {.batch = {2, 2}, .queries = 16, .keys = 32, .width = 8, .depth = 16},
      {.batch = {1, 3}, .queries = 13, .keys = 19, .width = 5, .depth = 7},
      {.batch = {2}, .queries = 7, .keys = 37, .width = 3, .depth = 9, .mask = {1, 37}, .scale = 2},
      {.batch = {2, 2}, .queries = 9, .keys = 16, .width = 4, .depth = 8, .mask = {2, 1, 1, 16}, .scale = 0.5},
      {.batch = {1, 2}, .queries = 1, .keys = 48, .width = 8, .depth = 8, .mask = {1, 1, 1, 48}},
      {.batch = {1, 2, 3}, .queries = 10, .keys = 24, .width = 8, .depth = 24, .ends_in_add = true, .shared = 3},
      {.batch = {3}, .queries = 33, .keys = 5, .width = 2, .depth = 2, .mask = {33, 5}},
      {.batch = {2}, .queries = 14, .keys = 2, .width = 1, .depth = 3},
  };
  for (const Attention& c : cases) {
    const PrimFunc func = Make(c);
    const Names names = NamesOf(func);
    EXPECT_EQ(names.together, names.count) << names.all;
    test::CheckSpace(func, 6, 1);
    if (::testing::Test::HasFailure()) FAIL() << c.queries << " x " << c.keys << " x " << c.width << " x " << c.depth;
  }
}

// What is placed apart computes the same, too.
TEST(AttentionSketch, ApartComputesTheSame) {
  const Target cores = *Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=16");
  test::CheckSpace(Make({.batch = {2}, .queries = 3, .keys = 37, .width = 5, .depth = 9, .mask = {3, 37}}), 3, 2,
                   cores);
}

}  // namespace
}  // namespace autotune
