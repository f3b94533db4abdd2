// Attention operators of com.microsoft, compared with loops written from their definitions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "frontend/onnx/import.h"
#include "tests/frontend/element_types.h"
#include "tests/frontend/outputs.h"

namespace autotune::graph {
namespace {

using testing::HasSubstr;

constexpr double kFilter = -10000;  // ONNX Runtime's default summand for masked scores

constexpr int64_t kBatch = 2;  // number of sequences in every test

// An operand of shape [B, H, S, D], with B = kBatch, H = `heads`, S = `length` and D = `width`.
struct Heads {
  int64_t heads = 0, length = 0, width = 0;
  Numbers x;
  double& At(int64_t b, int64_t h, int64_t s, int64_t d) { return x[((b * heads + h) * length + s) * width + d]; }
  double At(int64_t b, int64_t h, int64_t s, int64_t d) const { return x[((b * heads + h) * length + s) * width + d]; }
  // Returns the data as [B, S, H * D].
  Numbers Merged() const {
    Numbers out;
    for (int64_t b = 0; b < kBatch; ++b) {
      for (int64_t s = 0; s < length; ++s) {
        for (int64_t h = 0; h < heads; ++h) {
          for (int64_t d = 0; d < width; ++d) out.push_back(At(b, h, s, d));
        }
      }
    }
    return out;
  }
};

Heads Make(int64_t heads, int64_t length, int64_t width, uint32_t seed) {
  return {heads, length, width, RandomNumbers(kBatch * heads * length * width, seed)};
}

Heads Joined(const Heads& past, const Heads& now) {
  Heads out{now.heads, past.length + now.length, now.width, {}};
  out.x.resize(kBatch * out.heads * out.length * out.width);
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t h = 0; h < out.heads; ++h) {
      for (int64_t s = 0; s < out.length; ++s) {
        for (int64_t d = 0; d < out.width; ++d)
          out.At(b, h, s, d) = s < past.length ? past.At(b, h, s, d) : now.At(b, h, s - past.length, d);
      }
    }
  }
  return out;
}

using Bias = std::function<double(int64_t b, int64_t h, int64_t s, int64_t t)>;

// Computes attention by its definition. Returns the result as [B, S, H * E], where E is the width of v.
Numbers Attended(const Heads& q, const Heads& k, const Heads& v, double scale, const Bias& bias, double cap = 0) {
  Heads y{q.heads, q.length, v.width, Numbers(kBatch * q.heads * q.length * v.width)};
  for (int64_t row = 0; row < kBatch * q.heads * q.length; ++row) {
    const int64_t b = row / (q.heads * q.length), h = row / q.length % q.heads, s = row % q.length;
    const int64_t shared = h / (q.heads / k.heads);
    Numbers p(k.length);
    double most = -kInfinity, sum = 0;
    for (int64_t t = 0; t < k.length; ++t) {
      for (int64_t d = 0; d < q.width; ++d) p[t] += q.At(b, h, s, d) * k.At(b, shared, t, d);
      p[t] *= scale;
      if (cap > 0) p[t] = cap * std::tanh(p[t] / cap);
      most = std::max(most, p[t] += bias(b, h, s, t));
    }
    for (double& e : p) sum += e = std::exp(e - most);
    for (int64_t t = 0; t < k.length; ++t) {
      for (int64_t e = 0; e < v.width; ++e) y.At(b, h, s, e) += p[t] / sum * v.At(b, shared, t, e);
    }
  }
  return y.Merged();
}

Bias None() {
  return [](int64_t, int64_t, int64_t, int64_t) { return 0.0; };
}

void ExpectOutputs(const ModelMaker& m, const std::vector<Numbers>& inputs, const std::vector<Numbers>& want) {
  Result<ImportedModel> imported = Import(m);
  ASSERT_TRUE(imported.ok()) << imported.error().Text();
  const Graph& g = imported->module.main();
  std::vector<reference::Tensor> in;
  for (size_t i = 0; i < g.inputs.size(); ++i)
    in.push_back({g.Spec(g.inputs[i]).shape, inputs.at(i), g.Spec(g.inputs[i]).dtype});
  const auto got = reference::Evaluate(g, in);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_THAT(got[i].data, Near(want[i])) << "output " << i;
}

// A model of one node, and the values of its inputs. Add appends an input of the node.
struct OneNode {
  ModelMaker m = ModelMaker(17);
  std::vector<std::string> inputs;
  std::vector<Numbers> values;

  void Add(const std::vector<int64_t>& shape, const Numbers& numbers, int type = kFloat) {
    inputs.push_back("i" + std::to_string(inputs.size()));
    m.Input(inputs.back(), shape, type);
    values.push_back(numbers);
  }
  void Skip(size_t count = 1) { inputs.insert(inputs.end(), count, ""); }
  NodeMaker Node(const char* op, const std::vector<std::string>& outputs = {"y"}) {
    for (const std::string& y : outputs) m.Output(y);
    return m.Node(op, inputs, outputs).Domain("com.microsoft");
  }
};

TEST(MicrosoftAttention, MultiHead) {
  Heads q = Make(2, 3, 4, 1), k = Make(2, 5, 4, 2), v = Make(2, 5, 4, 3);
  const Numbers bias = RandomNumbers(24, 4), extra = RandomNumbers(2 * 3 * 5, 5);
  OneNode n;
  n.Add({2, 3, 8}, q.Merged());
  n.Add({2, 5, 8}, k.Merged());
  n.Add({2, 5, 8}, v.Merged());
  n.Add({24}, bias);
  n.Add({2, 5}, {1, 2, 0, 1, 1, 1, 0, -1, 0, 1}, kInt32);
  n.Add({1, 2, 3, 5}, extra);
  n.Node("MultiHeadAttention").Int("num_heads", 2).Float("mask_filter_value", -3);
  Heads* operands[] = {&q, &k, &v};
  for (int i = 0; i < 3; ++i) {
    for (int64_t e = 0; e < static_cast<int64_t>(operands[i]->x.size()); ++e) {
      const int64_t h = e / (operands[i]->length * 4) % 2, d = e % 4;
      operands[i]->x[e] += bias[i * 8 + h * 4 + d];
    }
  }
  const Numbers mask = n.values[4];
  ExpectOutputs(n.m, n.values, {Attended(q, k, v, 0.5, [&](int64_t b, int64_t h, int64_t s, int64_t t) {
                  return (mask[b * 5 + t] > 0 ? 0 : -3) + extra[(h * 3 + s) * 5 + t];
                })});
}

TEST(MicrosoftAttention, MultiHeadWithPast) {
  const Heads q = Make(2, 3, 4, 1), k = Make(2, 3, 4, 2), v = Make(2, 3, 4, 3);
  const Heads pk = Make(2, 2, 4, 4), pv = Make(2, 2, 4, 5), all_k = Joined(pk, k), all_v = Joined(pv, v);
  OneNode n;
  n.Add({2, 3, 8}, q.Merged());
  n.Add({2, 3, 8}, k.Merged());
  n.Add({2, 3, 8}, v.Merged());
  n.Skip(3);
  n.Add({2, 2, 2, 4}, pk.x);
  n.Add({2, 2, 2, 4}, pv.x);
  n.Node("MultiHeadAttention", {"y", "pk", "pv"}).Int("num_heads", 2).Int("unidirectional", 1).Float("scale", 0.25f);
  auto causal = [](int64_t, int64_t, int64_t s, int64_t t) { return t > s + 2 ? -kInfinity : 0; };
  ExpectOutputs(n.m, n.values, {Attended(q, all_k, all_v, 0.25, causal), all_k.x, all_v.x});
}

// Returns the parts interleaved as [B, S, H, parts, D].
Numbers Packed(const std::vector<const Heads*>& parts) {
  const Heads& first = *parts[0];
  Numbers out;
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t s = 0; s < first.length; ++s) {
      for (int64_t h = 0; h < first.heads; ++h) {
        for (const Heads* p : parts) {
          for (int64_t d = 0; d < p->width; ++d) out.push_back(p->At(b, h, s, d));
        }
      }
    }
  }
  return out;
}

TEST(MicrosoftAttention, PackedOperands) {
  const Heads q = Make(2, 3, 4, 1), k = Make(2, 3, 4, 2), v = Make(2, 3, 4, 3);
  const Numbers want = Attended(q, k, v, 0.5, None());
  OneNode all, pair, cross;
  all.Add({2, 3, 2, 3, 4}, Packed({&q, &k, &v}));
  all.Node("MultiHeadAttention").Int("num_heads", 2);
  ExpectOutputs(all.m, all.values, {want});
  pair.Add({2, 3, 8}, q.Merged());
  pair.Add({2, 3, 2, 2, 4}, Packed({&k, &v}));
  pair.Node("MultiHeadAttention").Int("num_heads", 2);
  ExpectOutputs(pair.m, pair.values, {want});
  cross.Add({2, 3, 8}, q.Merged());  // merged queries; keys and values of shape [B, H, S, D]
  cross.Add({2, 2, 3, 4}, k.x);
  cross.Add({2, 2, 3, 4}, v.x);
  cross.Node("MultiHeadAttention").Int("num_heads", 2);
  ExpectOutputs(cross.m, cross.values, {want});
}

// Attention's input times its weights gives queries, keys and values.
struct Projection {
  Numbers x = RandomNumbers(2 * 3 * 2, 1), w = RandomNumbers(2 * 20, 2), b = RandomNumbers(20, 3);
  // Returns two heads of the given width, from the product's columns `begin` and following.
  Heads Part(int64_t begin, int64_t width) const {
    Heads out{2, 3, width, Numbers(kBatch * 2 * 3 * width)};
    for (int64_t i = 0; i < kBatch; ++i) {
      for (int64_t h = 0; h < 2; ++h) {
        for (int64_t s = 0; s < 3; ++s) {
          for (int64_t d = 0; d < width; ++d) {
            const int64_t column = begin + h * width + d, row = (i * 3 + s) * 2;
            out.At(i, h, s, d) = x[row] * w[column] + x[row + 1] * w[20 + column] + b[column];
          }
        }
      }
    }
    return out;
  }
  void AddTo(OneNode& n) const {
    n.Add({2, 3, 2}, x);
    n.Add({2, 20}, w);
    n.Add({20}, b);
  }
};

NodeMaker AttentionNode(OneNode& n, const std::vector<std::string>& outputs = {"y"}) {
  return n.Node("Attention", outputs).Int("num_heads", 2).Ints("qkv_hidden_sizes", {8, 8, 4});
}

TEST(MicrosoftAttention, MasksOfKeys) {
  const Projection p;
  const Heads q = p.Part(0, 4), k = p.Part(8, 4), v = p.Part(16, 2);
  struct Mask {
    std::vector<int64_t> shape;
    Numbers numbers;
    std::function<bool(int64_t b, int64_t s, int64_t t)> keeps;
  };
  const Numbers keys = {1, 0, 2, 0, -1, 0};
  const Mask masks[] = {{{2, 3}, keys, [&](int64_t b, int64_t, int64_t t) { return keys[b * 3 + t] > 0; }},
                        {{2}, {2, 3}, [](int64_t b, int64_t, int64_t t) { return t < 2 + b; }},
                        {{4}, {2, 3, 1, 0}, [](int64_t b, int64_t, int64_t t) { return t < 2 + b && t >= 1 - b; }},
                        {{2, 3, 3},
                         {1, 0, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 1, 1, 0, 0, 1},
                         [](int64_t b, int64_t s, int64_t t) { return b == 0 ? t <= s : t >= s; }}};
  for (const Mask& mask : masks) {
    OneNode n;
    p.AddTo(n);
    n.Add(mask.shape, mask.numbers, kInt32);
    AttentionNode(n);
    ExpectOutputs(n.m, n.values, {Attended(q, k, v, 0.5, [&](int64_t b, int64_t, int64_t s, int64_t t) {
                    return mask.keeps(b, s, t) ? 0 : kFilter;
                  })});
  }
}

TEST(MicrosoftAttention, PastInOneTensor) {
  OneNode n;
  const Numbers x = RandomNumbers(2 * 3 * 2, 1), w = RandomNumbers(2 * 12, 2),
                past = RandomNumbers(2 * 2 * 2 * 1 * 2, 4);
  n.Add({2, 3, 2}, x);
  n.Add({2, 12}, w);
  n.Skip(2);
  n.Add({2, 2, 2, 1, 2}, past);
  n.Node("Attention", {"y", "present"}).Int("num_heads", 2).Int("unidirectional", 1);
  auto part = [&](int64_t begin) {
    Heads out{2, 3, 2, Numbers(24)};
    for (int64_t e = 0; e < 24; ++e) {
      const int64_t b = e / 12, h = e / 6 % 2, s = e / 2 % 3, column = begin + h * 2 + e % 2, row = (b * 3 + s) * 2;
      out.x[e] = x[row] * w[column] + x[row + 1] * w[12 + column];
    }
    return out;
  };
  const Heads pk{2, 1, 2, {past.begin(), past.begin() + 8}}, pv{2, 1, 2, {past.begin() + 8, past.end()}};
  const Heads all_k = Joined(pk, part(4)), all_v = Joined(pv, part(8));
  Numbers present = all_k.x;
  present.insert(present.end(), all_v.x.begin(), all_v.x.end());
  auto causal = [](int64_t, int64_t, int64_t s, int64_t t) { return t > s + 1 ? -kInfinity : 0; };
  ExpectOutputs(n.m, n.values, {Attended(part(0), all_k, all_v, 1 / std::sqrt(2), causal), present});
}

// Rotates pairs of elements: (a, b) -> (a cos - b sin, a sin + b cos). Pair i consists of the elements 2 i and 2 i + 1
// if interleaved, otherwise of i and i + half.
Heads Rotated(const Heads& x, const Numbers& cos, const Numbers& sin, int64_t half, bool interleaved,
              const std::function<int64_t(int64_t b, int64_t s)>& position) {
  Heads out = x;
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t h = 0; h < x.heads; ++h) {
      for (int64_t s = 0; s < x.length; ++s) {
        for (int64_t i = 0; i < half; ++i) {
          const int64_t first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + half;
          const double c = cos[position(b, s) * half + i], z = sin[position(b, s) * half + i];
          out.At(b, h, s, first) = x.At(b, h, s, first) * c - x.At(b, h, s, second) * z;
          out.At(b, h, s, second) = x.At(b, h, s, first) * z + x.At(b, h, s, second) * c;
        }
      }
    }
  }
  return out;
}

TEST(MicrosoftAttention, RotaryEmbedding) {
  const Heads x = Make(2, 3, 4, 1);
  const Numbers cos = RandomNumbers(16, 2), sin = RandomNumbers(16, 3);
  for (bool interleaved : {false, true}) {
    OneNode merged, split;
    merged.Add({2, 3, 8}, x.Merged());
    merged.Add({1}, {4}, kInt64);
    split.Add({2, 2, 3, 4}, x.x);
    split.Add({2, 3}, {0, 2, 1, 7, 7, 3}, kInt64);
    for (OneNode* n : {&merged, &split}) {
      n->Add({8, 2}, cos);
      n->Add({8, 2}, sin);
      n->Node("RotaryEmbedding").Int("interleaved", interleaved);
    }
    const Numbers at = split.values[1];
    ExpectOutputs(merged.m, merged.values,
                  {Rotated(x, cos, sin, 2, interleaved, [](int64_t, int64_t s) { return 4 + s; }).Merged()});
    ExpectOutputs(split.m, split.values, {Rotated(x, cos, sin, 2, interleaved, [&](int64_t b, int64_t s) {
                                            return static_cast<int64_t>(at[b * 3 + s]);
                                          }).x});
  }
}

// Prompts of 4 and 2 tokens; the second prompt is padded on the right. The inputs for the past are omitted or have no
// rows, as in exported decoders.
TEST(MicrosoftAttention, GroupedPrompt) {
  const Heads q = Make(4, 4, 4, 1), k = Make(2, 4, 4, 2), v = Make(2, 4, 4, 3);
  const Numbers cos = RandomNumbers(16, 5), sin = RandomNumbers(16, 6);
  auto from_start = [](int64_t, int64_t s) { return s; };
  const Heads rq = Rotated(q, cos, sin, 2, false, from_start), rk = Rotated(k, cos, sin, 2, false, from_start);
  auto bias = [](int64_t b, int64_t, int64_t s, int64_t t) {
    return t > s || t <= s - 2 || t >= (b == 0 ? 4 : 2) ? -kInfinity : 0;
  };
  Numbers y = Attended(rq, rk, v, 0.5, bias, 2);
  for (int64_t i = 7 * 16; i < 8 * 16; ++i) y[i] = 0;  // the last padding token sees no key
  for (bool has_past : {false, true}) {
    OneNode n;
    n.Add({2, 4, 16}, q.Merged());
    n.Add({2, 4, 8}, k.Merged());
    n.Add({2, 4, 8}, v.Merged());
    for (int i = 0; has_past && i < 2; ++i) n.Add({2, 2, 0, 4}, {});
    if (!has_past) n.Skip(2);
    n.Add({2}, {3, 1}, kInt32);
    n.m.Ints("count", {4}).Node("Cast", {"count"}, {"total"}).Int("to", kInt32);
    n.inputs.push_back("total");
    n.Add({8, 2}, cos);
    n.Add({8, 2}, sin);
    n.Node("GroupQueryAttention", {"y", "pk", "pv"})
        .Int("num_heads", 4)
        .Int("kv_num_heads", 2)
        .Int("do_rotary", 1)
        .Int("local_window_size", 2)
        .Float("softcap", 2);
    ExpectOutputs(n.m, n.values, {y, rk.x, v.x});
  }
}

// Each sequence gets one more token. The pasts have 3 and 1 tokens, in buffers of 4 rows.
TEST(MicrosoftAttention, GroupedDecoding) {
  const Heads q = Make(4, 1, 4, 1), k = Make(2, 1, 4, 2), v = Make(2, 1, 4, 3);
  const Heads pk = Make(2, 4, 4, 4), pv = Make(2, 4, 4, 5);
  const int64_t ends[] = {3, 1};
  auto inserted = [&](const Heads& past, const Heads& now) {
    Heads out = past;
    for (int64_t b = 0; b < kBatch; ++b) {
      for (int64_t h = 0; h < 2; ++h) {
        for (int64_t d = 0; d < 4; ++d) out.At(b, h, ends[b], d) = now.At(b, h, 0, d);
      }
    }
    return out;
  };
  const Numbers cos = RandomNumbers(16, 5), sin = RandomNumbers(16, 6);
  Numbers packed;
  for (int64_t b = 0; b < kBatch; ++b) {
    const Numbers parts[] = {q.Merged(), k.Merged(), v.Merged()};
    for (const Numbers& part : parts) {
      const auto size = static_cast<int64_t>(part.size()) / kBatch;
      packed.insert(packed.end(), part.begin() + b * size, part.begin() + (b + 1) * size);
    }
  }
  OneNode n;
  n.Add({2, 1, 32}, packed);
  n.Skip(2);
  n.Add({2, 2, 4, 4}, pk.x);
  n.Add({2, 2, 4, 4}, pv.x);
  n.Add({2}, {3, 1}, kInt32);
  n.m.Ints("count", {4}).Node("Cast", {"count"}, {"total"}).Int("to", kInt32);
  n.inputs.push_back("total");
  n.Add({8, 2}, cos);
  n.Add({8, 2}, sin);
  n.Node("GroupQueryAttention", {"y", "pk", "pv"})
      .Int("num_heads", 4)
      .Int("kv_num_heads", 2)
      .Int("do_rotary", 1)
      .Int("rotary_interleaved", 1);
  auto at_end = [&](int64_t b, int64_t) { return ends[b]; };
  const Heads rk = inserted(pk, Rotated(k, cos, sin, 2, true, at_end));
  Heads all_v = inserted(pv, v), all_k = rk;
  auto bias = [&](int64_t b, int64_t, int64_t, int64_t t) { return t > ends[b] ? -kInfinity : 0; };
  const Numbers y = Attended(Rotated(q, cos, sin, 2, true, at_end), all_k, all_v, 0.5, bias);
  // The rows after a sequence's keys are unspecified. This implementation repeats the last new row there.
  for (Heads* present : {&all_k, &all_v}) {
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t t = ends[1] + 1; t < 4; ++t) {
        for (int64_t d = 0; d < 4; ++d) present->At(1, h, t, d) = present->At(1, h, ends[1], d);
      }
    }
  }
  ExpectOutputs(n.m, n.values, {y, all_k.x, all_v.x});
}

TEST(MicrosoftAttention, Refusals) {
  auto multi_head = [](size_t skipped, const char* attr, int64_t value) {
    OneNode n;
    for (int i = 0; i < 3; ++i) n.Add({2, 3, 8}, {});
    if (skipped > 0) {
      n.Skip(skipped);
      n.Add({1}, {}, kInt32);
    }
    n.Node("MultiHeadAttention").Int(attr, value);
    return ImportError(n.m);
  };
  EXPECT_EQ(multi_head(0, "num_heads", 2), "no error");
  EXPECT_THAT(multi_head(0, "num_heads", 0), HasSubstr("num_heads must be positive, not 0"));
  EXPECT_THAT(multi_head(0, "num_heads", 3), HasSubstr("3 heads do not divide f32[2,3,8]"));
  EXPECT_THAT(multi_head(5, "num_heads", 2), HasSubstr("input past_sequence_length is not supported"));
  EXPECT_THAT(multi_head(6, "num_heads", 2), HasSubstr("input cache_indirection is not supported"));
  auto attention = [](const char* attr, const std::vector<int64_t>& mask) {
    OneNode n;
    Projection().AddTo(n);
    if (!mask.empty()) n.Add(mask, {}, kInt32);
    AttentionNode(n).Int(attr, 1);
    return ImportError(n.m);
  };
  EXPECT_EQ(attention("unidirectional", {2, 3}), "no error");
  EXPECT_THAT(attention("do_rotary", {}), HasSubstr("attribute do_rotary is not supported"));
  EXPECT_THAT(attention("past_present_share_buffer", {}), HasSubstr("past_present_share_buffer is not supported"));
  EXPECT_THAT(attention("unidirectional", {2, 1, 8, 8}), HasSubstr("a mask i32[2,1,8,8] is not supported"));
  auto grouped = [](const char* attr, int64_t value, bool with_past) {
    OneNode n;
    for (int i = 0; i < 3; ++i) n.Add({2, 1, 8}, {});
    if (with_past) {
      for (int i = 0; i < 2; ++i) n.Add({2, 2, 4, 4}, {});
    } else {
      n.Skip(2);
    }
    n.Add({2}, {}, kInt32);
    n.Add({}, {}, kInt32);
    n.Node("GroupQueryAttention").Int("num_heads", 2).Int("kv_num_heads", 2).Int(attr, value);
    return ImportError(n.m);
  };
  EXPECT_EQ(grouped("local_window_size", 3, false), "no error");
  EXPECT_THAT(grouped("local_window_size", 0, false), HasSubstr("local_window_size must be positive or -1, not 0"));
  EXPECT_THAT(grouped("smooth_softmax", 1, false), HasSubstr("attribute smooth_softmax is not supported"));
  EXPECT_THAT(grouped("local_window_size", 3, true), HasSubstr("total_sequence_length is computed at run time"));
}

}  // namespace
}  // namespace autotune::graph
