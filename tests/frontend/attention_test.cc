// ONNX's Attention, compared with loops written from its definition.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <random>

#include "frontend/onnx/import.h"
#include "graph/extract.h"
#include "graph/pipeline.h"
#include "tests/frontend/element_types.h"
#include "tests/frontend/outputs.h"

namespace autotune::graph {
namespace {

using testing::HasSubstr;

// One call of Attention, which has `heads` heads of queries and `shared` heads of keys and values. Each head has `past`
// keys from earlier calls, then `keys` new keys. Queries and keys have `width` elements, values `value_width`. If
// `merged`, the heads of q, k, v and y are merged into rows: [B, S, H * D]. A query at position p sees only the keys
// from p - `left` to p + `right`, if these are set.
struct Case {
  int64_t batch = 2, heads = 2, shared = 2, queries = 3, keys = 5, past = 0, width = 4, value_width = 3;
  bool merged = false, causal = false;
  std::optional<double> scale;
  double softcap = 0;
  std::vector<int64_t> mask;  // shape of the mask; empty if there is none
  bool bool_mask = false;
  std::optional<int64_t> left, right;
  Numbers lengths;  // number of keys of each sequence (nonpad_kv_seqlen); empty: no such input
  int mode = 0;
  int opset = 25, type = kFloat;
  bool softmax_in_doubles = false;
  bool all_outputs = true;
};

struct Tensors {
  Numbers q, k, v, mask, past_k, past_v;  // q, k, v as [B, H, S, D]
};

struct Results {
  Numbers y, scores, present_k, present_v;  // y: [B, S, H, E] if merged
};

Numbers Random(int64_t count, std::mt19937& rng) {
  Numbers out;
  for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<double>(static_cast<int>(rng() % 17) - 8) / 8);
  return out;
}

// Reorders [B, H, S, D] to [B, S, H, D].
Numbers Merged(const Numbers& x, int64_t batch, int64_t heads, int64_t length, int64_t width) {
  Numbers out(x.size());
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t s = 0; s < length; ++s) {
        for (int64_t d = 0; d < width; ++d)
          out[((b * length + s) * heads + h) * width + d] = x[((b * heads + h) * length + s) * width + d];
      }
    }
  }
  return out;
}

// Joins two arrays of `rows` rows along their lengths: [B, H, P, D] and [B, H, S, D] to [B, H, P + S, D].
Numbers Joined(const Numbers& past, const Numbers& now, int64_t rows, int64_t past_length, int64_t length,
               int64_t width) {
  Numbers out;
  for (int64_t r = 0; r < rows; ++r) {
    out.insert(out.end(), past.begin() + r * past_length * width, past.begin() + (r + 1) * past_length * width);
    out.insert(out.end(), now.begin() + r * length * width, now.begin() + (r + 1) * length * width);
  }
  return out;
}

// Returns the number that the mask adds to a score. Keys beyond the mask's end are masked.
double MaskAt(const Case& c, const Numbers& mask, int64_t b, int64_t h, int64_t s, int64_t t) {
  if (c.mask.empty()) return 0;
  if (t >= c.mask.back()) return -kInfinity;
  const int64_t at[] = {b, h, s, t};
  int64_t index = 0;
  const size_t rank = c.mask.size();
  for (size_t d = 0; d < rank; ++d) index = index * c.mask[d] + (c.mask[d] == 1 ? 0 : at[4 - rank + d]);
  if (!c.bool_mask) return mask[index];
  return mask[index] != 0 ? 0 : -kInfinity;
}

bool Sees(const Case& c, int64_t b, int64_t s, int64_t t) {
  int64_t position = s + c.past;
  if (!c.lengths.empty() && c.past == 0) position = s + static_cast<int64_t>(c.lengths[b]) - c.queries;
  if (!c.lengths.empty() && t >= static_cast<int64_t>(c.lengths[b])) return false;
  if (c.causal && t > position) return false;
  if (c.left && t < position - *c.left) return false;
  return !c.right || t <= position + *c.right;
}

Results Expected(const Case& c, const Tensors& in) {
  Results out;
  const int64_t total = c.past + c.keys;
  out.present_k = Joined(in.past_k, in.k, c.batch * c.shared, c.past, c.keys, c.width);
  out.present_v = Joined(in.past_v, in.v, c.batch * c.shared, c.past, c.keys, c.value_width);
  const double scale = c.scale ? *c.scale : 1 / std::sqrt(static_cast<double>(c.width));
  for (int64_t row = 0; row < c.batch * c.heads * c.queries; ++row) {
    const int64_t b = row / (c.heads * c.queries), h = row / c.queries % c.heads, s = row % c.queries;
    const int64_t from = b * c.shared + h / (c.heads / c.shared);
    Numbers stages[4] = {Numbers(total), Numbers(total), Numbers(total), Numbers(total)};
    double most = -kInfinity, sum = 0;
    for (int64_t t = 0; t < total; ++t) {
      double product = 0;
      for (int64_t d = 0; d < c.width; ++d)
        product += in.q[row * c.width + d] * out.present_k[(from * total + t) * c.width + d];
      stages[0][t] = product * scale;
      stages[1][t] = c.softcap > 0 ? c.softcap * std::tanh(stages[0][t] / c.softcap) : stages[0][t];
      stages[2][t] = Sees(c, b, s, t) ? stages[1][t] + MaskAt(c, in.mask, b, h, s, t) : -kInfinity;
      most = std::max(most, stages[2][t]);
    }
    for (int64_t t = 0; t < total && most > -kInfinity; ++t) sum += stages[3][t] = std::exp(stages[2][t] - most);
    for (double& p : stages[3]) p = sum > 0 ? p / sum : 0;
    out.scores.insert(out.scores.end(), stages[c.mode].begin(), stages[c.mode].end());
    for (int64_t e = 0; e < c.value_width; ++e) {
      double y = 0;
      for (int64_t t = 0; t < total; ++t) y += stages[3][t] * out.present_v[(from * total + t) * c.value_width + e];
      out.y.push_back(y);
    }
  }
  if (c.merged) out.y = Merged(out.y, c.batch, c.heads, c.queries, c.value_width);
  return out;
}

ModelMaker Model(const Case& c) {
  ModelMaker m(c.opset);
  auto operand = [&](const char* name, int64_t heads, int64_t length, int64_t width) {
    if (c.merged) {
      m.Input(name, {c.batch, length, heads * width}, c.type);
    } else {
      m.Input(name, {c.batch, heads, length, width}, c.type);
    }
  };
  operand("q", c.heads, c.queries, c.width);
  operand("k", c.shared, c.keys, c.width);
  operand("v", c.shared, c.keys, c.value_width);
  std::vector<std::string> inputs = {"q", "k", "v", "", "", "", ""};
  if (!c.mask.empty()) m.Input(inputs[3] = "mask", c.mask, c.bool_mask ? kBool : c.type);
  if (c.past > 0) {
    m.Input(inputs[4] = "pk", {c.batch, c.shared, c.past, c.width}, c.type);
    m.Input(inputs[5] = "pv", {c.batch, c.shared, c.past, c.value_width}, c.type);
  }
  if (!c.lengths.empty()) m.Input(inputs[6] = "lengths", {c.batch}, kInt64);
  m.Output("y");
  if (c.all_outputs) m.Output("present_k").Output("present_v").Output("scores");
  NodeMaker node = m.Node("Attention", inputs, {"y", "present_k", "present_v", "scores"});
  if (c.merged) node.Int("q_num_heads", c.heads).Int("kv_num_heads", c.shared);
  if (c.causal) node.Int("is_causal", 1);
  if (c.scale) node.Float("scale", static_cast<float>(*c.scale));
  if (c.softcap > 0) node.Float("softcap", static_cast<float>(c.softcap));
  if (c.left) node.Int("left_window_size", *c.left);
  if (c.right) node.Int("right_window_size", *c.right);
  if (c.mode > 0) node.Int("qk_matmul_output_mode", c.mode);
  if (c.softmax_in_doubles) node.Int("softmax_precision", kDouble);
  return m;
}

Tensors Draw(const Case& c, std::mt19937& rng) {
  Tensors in;
  in.q = Random(c.batch * c.heads * c.queries * c.width, rng);
  in.k = Random(c.batch * c.shared * c.keys * c.width, rng);
  in.v = Random(c.batch * c.shared * c.keys * c.value_width, rng);
  in.past_k = Random(c.batch * c.shared * c.past * c.width, rng);
  in.past_v = Random(c.batch * c.shared * c.past * c.value_width, rng);
  int64_t mask = 1;
  for (int64_t d : c.mask) mask *= d;
  in.mask = Random(mask, rng);
  if (c.bool_mask) {
    for (double& m : in.mask) m = m > 0;
    // The first row of the mask hides all keys.
    std::fill_n(in.mask.begin(), std::min<int64_t>(mask, c.mask.empty() ? 0 : c.mask.back()), 0);
  }
  return in;
}

void Check(const Case& c) {
  std::mt19937 rng(7);
  const Tensors in = Draw(c, rng);
  Result<ImportedModel> imported = Import(Model(c));
  ASSERT_TRUE(imported.ok()) << imported.error().Text();
  const Graph& g = imported->module.main();
  std::vector<reference::Tensor> operands;
  auto add = [&](const Numbers& numbers) {
    const TensorSpec& spec = g.Spec(g.inputs[operands.size()]);
    operands.push_back({spec.shape, numbers, spec.dtype});
  };
  auto rows = [&](const Numbers& x, int64_t heads, int64_t length, int64_t width) {
    return c.merged ? Merged(x, c.batch, heads, length, width) : x;
  };
  add(rows(in.q, c.heads, c.queries, c.width));
  add(rows(in.k, c.shared, c.keys, c.width));
  add(rows(in.v, c.shared, c.keys, c.value_width));
  if (!c.mask.empty()) add(in.mask);
  if (c.past > 0) {
    add(in.past_k);
    add(in.past_v);
  }
  if (!c.lengths.empty()) add(c.lengths);
  const std::vector<reference::Tensor> out = reference::Evaluate(g, operands);
  const Results want = Expected(c, in);
  ExpectNear(out[0].data, want.y, "y");
  ExpectNear(out[1].data, want.present_k, "present_k");
  ExpectNear(out[2].data, want.present_v, "present_v");
  ExpectNear(out[3].data, want.scores, "scores");
}

TEST(Attention, Plain) {
  for (int type : {kFloat, kDouble}) {
    for (bool merged : {false, true}) Check({.merged = merged, .type = type});
  }
  Check({.scale = 0.5});
  Check({.softcap = 0.5, .opset = 23});
  Check({.softmax_in_doubles = true});
}

TEST(Attention, SharedHeads) {
  for (bool merged : {false, true}) {
    Check({.heads = 6, .merged = merged});
    // With one query, the query heads that share a key head become rows of one product.
    Check({.heads = 6, .queries = 1, .merged = merged});
    Check({.heads = 4, .shared = 1, .merged = merged, .causal = true});
  }
  Check({.heads = 6, .queries = 1, .mask = {2, 6, 1, 5}});
  Check({.heads = 6, .queries = 1, .mask = {2, 1, 1, 5}, .bool_mask = true});
  Check({.heads = 6, .mask = {2, 6, 3, 5}, .bool_mask = true});
  Check({.heads = 6, .mask = {1, 1, 3, 5}});
}

TEST(Attention, Masks) {
  const std::vector<int64_t> shapes[] = {{5},          {3, 5},       {1, 5}, {2, 3, 5},
                                         {2, 1, 3, 5}, {2, 2, 3, 5}, {3, 4}, {2, 1, 3, 1}};
  for (const auto& shape : shapes) {
    for (bool bools : {false, true}) {
      Check({.mask = shape, .bool_mask = bools});
      Check({.causal = true, .mask = shape, .bool_mask = bools, .mode = 3});
    }
  }
}

TEST(Attention, PastAndPresent) {
  for (bool merged : {false, true}) {
    Check({.past = 4, .merged = merged});
    Check({.past = 4, .merged = merged, .causal = true});
    Check({.past = 4, .merged = merged, .mask = {3, 9}, .mode = 2});
  }
  Check({.queries = 1, .keys = 1, .past = 6, .causal = true});
}

TEST(Attention, Windows) {
  for (bool causal : {false, true}) {
    Check({.causal = causal, .left = 1});
    Check({.causal = causal, .left = 0, .right = 2});
    Check({.past = 3, .causal = causal, .right = 0});
    Check({.queries = 9, .keys = 2, .causal = causal, .left = 1});  // late queries see no key
    Check({.queries = 2, .keys = 6, .causal = causal, .left = 1, .right = 1, .lengths = {6, 3}});
  }
  Check({.left = int64_t{1} << 40, .right = int64_t{1} << 40});
}

TEST(Attention, Lengths) {
  for (bool causal : {false, true}) {
    Check({.causal = causal, .lengths = {5, 2}});
    Check({.causal = causal, .lengths = {1, 0}});
    Check({.causal = causal, .mask = {3, 5}, .bool_mask = true, .lengths = {4, 3}});
    Check({.past = 2, .causal = causal, .lengths = {6, 3}});
  }
}

TEST(Attention, ScoresOfEachStage) {
  for (int mode = 0; mode < 4; ++mode) Check({.causal = true, .softcap = 0.75, .mask = {3, 5}, .mode = mode});
}

// Returns the text of each kernel of the optimized graph, in order.
std::vector<std::string> Kernels(const Case& c) {
  Result<ImportedModel> imported = Import(Model(c));
  EXPECT_TRUE(imported.ok()) << imported.error().Text();
  const IRModule optimized = *Optimize(imported->module);
  std::vector<std::string> kernels;
  for (const Task& task : ExtractTasks(optimized.main())) kernels.push_back(task.text);
  return kernels;
}

// One kernel computes both products, scale, cap, mask and softmax. The other kernels transpose the keys and join the
// masks.
TEST(Attention, AFewKernels) {
  const auto kernels =
      Kernels({.causal = true, .softcap = 2, .mask = {2, 1, 3, 5}, .bool_mask = true, .all_outputs = false});
  auto with = [&](const std::vector<const char*>& operators) {
    return std::count_if(kernels.begin(), kernels.end(), [&](const std::string& text) {
      return std::all_of(operators.begin(), operators.end(),
                         [&](const char* op) { return text.find(std::string(" ") + op + "(") != std::string::npos; });
    });
  };
  EXPECT_EQ(with({"batch_matmul"}), 1);
  EXPECT_EQ(with({"batch_matmul", "mul", "tanh", "where", "reduce_max", "exp", "reduce_sum"}), 1);
  EXPECT_EQ(with({"softmax"}), 0);
  EXPECT_LE(kernels.size(), 4u);
  EXPECT_EQ(Kernels({.all_outputs = false}).size(), 2u);  // the other kernel is a transpose of the keys
}

// If the scores are outputs of the model, they must be stored. Then each product has a kernel of its own.
TEST(Attention, KernelsOfScoresThatAreOutputs) {
  const auto kernels = Kernels({.all_outputs = true});
  const auto products = std::count_if(kernels.begin(), kernels.end(), [](const std::string& text) {
    return text.find(" batch_matmul(") != std::string::npos;
  });
  EXPECT_EQ(products, 2);
}

std::string Refusal(const Case& c, const std::function<void(ModelMaker&, NodeMaker&)>& change) {
  ModelMaker m(c.opset);
  m.Input("q", {2, 4, 6}, c.type).Input("k", {2, 5, 6}, c.type).Input("v", {2, 5, 6}, c.type).Output("y");
  NodeMaker node = m.Node("Attention", {"q", "k", "v"}, {"y"});
  change(m, node);
  return ImportError(m);
}

TEST(Attention, Refusals) {
  auto heads = [](int64_t q, int64_t kv) {
    return [=](ModelMaker&, NodeMaker& node) { node.Int("q_num_heads", q).Int("kv_num_heads", kv); };
  };
  EXPECT_EQ(Refusal({}, heads(3, 3)), "no error");
  EXPECT_THAT(Refusal({}, heads(0, 3)), HasSubstr("0 heads do not divide f32[2,4,6] (q_num_heads)"));
  EXPECT_THAT(Refusal({}, heads(3, 4)), HasSubstr("4 heads do not divide f32[2,5,6] (kv_num_heads)"));
  EXPECT_THAT(Refusal({}, heads(3, 2)), HasSubstr("queries, keys and values do not fit"));
  EXPECT_THAT(Refusal({.type = kInt64}, heads(3, 3)), HasSubstr("must be floats"));
  EXPECT_THAT(Refusal({.opset = 22}, heads(3, 3)), HasSubstr("is supported in operator sets 23 to 28"));
  auto with = [](const char* name, int64_t value) {
    return [=](ModelMaker&, NodeMaker& node) { node.Int("q_num_heads", 3).Int("kv_num_heads", 3).Int(name, value); };
  };
  EXPECT_THAT(Refusal({}, with("left_window_size", -2)), HasSubstr("windows must be -1 or more, not -2 and -1"));
  EXPECT_THAT(Refusal({}, with("softmax_precision", kInt64)), HasSubstr("must be a type of floats"));
  EXPECT_THAT(Refusal({}, with("softmax_precision", 99)), HasSubstr("type 99"));
}

TEST(Attention, RefusedOperands) {
  auto model = [](const std::vector<int64_t>& mask, const std::vector<std::string>& more, int type = kFloat) {
    ModelMaker m(25);
    for (const char* name : {"q", "k", "v", "past"}) m.Input(name, {2, 2, 3, 4});
    m.Input("mask", mask, type).Input("lengths", {2}, kInt64).Input("odd", {3}, kInt64).Output("y");
    std::vector<std::string> inputs = {"q", "k", "v"};
    inputs.insert(inputs.end(), more.begin(), more.end());
    m.Node("Attention", inputs, {"y"});
    return ImportError(m);
  };
  EXPECT_EQ(model({3, 3}, {"mask"}), "no error");
  EXPECT_THAT(model({2, 3}, {"mask"}), HasSubstr("mask f32[2,3] does not broadcast to [2,2,3,3]"));
  EXPECT_THAT(model({3, 4}, {"mask"}), HasSubstr("does not broadcast"));
  EXPECT_THAT(model({1, 2, 2, 3, 3}, {"mask"}), HasSubstr("does not broadcast"));
  EXPECT_THAT(model({}, {"mask"}), HasSubstr("the mask must not be a scalar"));
  EXPECT_THAT(model({3, 3}, {"mask"}, kInt64), HasSubstr("the mask must be floats or bools"));
  EXPECT_THAT(model({3, 3}, {"", "past"}), HasSubstr("past keys and past values come together"));
  EXPECT_EQ(model({3, 3}, {"", "", "", "lengths"}), "no error");
  EXPECT_THAT(model({3, 3}, {"", "", "", "odd"}), HasSubstr("nonpad_kv_seqlen must be 2 integers, not i64[3]"));
}

}  // namespace
}  // namespace autotune::graph
