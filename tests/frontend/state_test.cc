// Operators that update a state (a cache, the last positions, a matrix), compared with loops written from their
// definitions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "frontend/onnx/import.h"
#include "tests/frontend/element_types.h"
#include "tests/frontend/outputs.h"

namespace autotune::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(TensorScatter, RowsBehindAPlace) {
  auto model = [](const char* mode, bool starts, int64_t axis) {
    ModelMaker m(24);
    m.Input("cache", {2, 4, 1}).Input("update", {2, 2, 1});
    if (starts) m.Input("at", {2}, kInt64);
    m.Output("y");
    std::vector<std::string> inputs = {"cache", "update"};
    if (starts) inputs.push_back("at");
    m.Node("TensorScatter", inputs, {"y"}).String("mode", mode).Int("axis", axis);
    return m;
  };
  const Numbers cache = {1, 2, 3, 4, 5, 6, 7, 8}, update = {10, 20, 30, 40};
  EXPECT_THAT(Output(model("linear", false, -2), {cache, update}), ElementsAre(10, 20, 3, 4, 30, 40, 7, 8));
  EXPECT_THAT(Output(model("linear", true, 1), {cache, update, {2, 1}}), ElementsAre(1, 2, 10, 20, 5, 30, 40, 8));
  EXPECT_THAT(Output(model("circular", true, 1), {cache, update, {3, 5}}), ElementsAre(20, 2, 3, 10, 5, 30, 40, 8));
}

TEST(TensorScatter, Refusals) {
  auto error = [](const std::vector<int64_t>& update, const char* mode, int64_t axis, int type = kInt64) {
    ModelMaker m(24);
    m.Input("cache", {2, 4, 3}).Input("update", update).Input("at", {2}, type).Output("y");
    m.Node("TensorScatter", {"cache", "update", "at"}, {"y"}).String("mode", mode).Int("axis", axis);
    return ImportError(m);
  };
  EXPECT_EQ(error({2, 1, 3}, "linear", 1), "no error");
  EXPECT_THAT(error({2, 5, 3}, "linear", 1), HasSubstr("update f32[2,5,3] does not fit f32[2,4,3]"));
  EXPECT_THAT(error({2, 1, 2}, "linear", 1), HasSubstr("does not fit"));
  EXPECT_THAT(error({1, 4, 3}, "linear", 0), HasSubstr("does not fit"));
  EXPECT_THAT(error({2, 1, 3}, "odd", 1), HasSubstr("mode 'odd' is neither linear nor circular"));
  EXPECT_THAT(error({2, 1, 3}, "linear", 1, kFloat), HasSubstr("write_indices must be 2 integers, not f32[2]"));
}

// Two sequences of two channels and five positions, and a kernel of three taps.
TEST(CausalConvWithState, SumsPositionsUpToItsOwn) {
  const Numbers x = RandomNumbers(20, 1), w = RandomNumbers(6, 2), b = RandomNumbers(2, 3), past = RandomNumbers(8, 4);
  for (bool with_state : {false, true}) {
    ModelMaker m(27);
    m.Input("x", {2, 2, 5}).Input("w", {2, 1, 3}).Input("b", {2});
    if (with_state) m.Input("past", {2, 2, 2});
    m.Output("y").Output("state");
    std::vector<std::string> inputs = {"x", "w", "b"};
    if (with_state) inputs.push_back("past");
    m.Node("CausalConvWithState", inputs, {"y", "state"}).String("activation", with_state ? "silu" : "none");
    Numbers y, state;
    for (int64_t row = 0; row < 4; ++row) {
      auto at = [&](int64_t t) { return t >= 0 ? x[row * 5 + t] : with_state ? past[row * 2 + t + 2] : 0; };
      for (int64_t t = 0; t < 5; ++t) {
        double sum = b[row % 2];
        for (int64_t i = 0; i < 3; ++i) sum += w[row % 2 * 3 + i] * at(t - 2 + i);
        y.push_back(with_state ? sum / (1 + std::exp(-sum)) : sum);
      }
      state.insert(state.end(), {at(3), at(4)});
    }
    const auto got = Outputs(m, {x, w, b, past});
    ExpectNear(got[0].data, y, "y");
    ExpectNear(got[1].data, state, "state");
  }
}

TEST(CausalConvWithState, Refusals) {
  auto error = [](const std::vector<int64_t>& w, const std::vector<int64_t>& past, const char* activation) {
    ModelMaker m(27);
    m.Input("x", {2, 2, 5}).Input("w", w).Input("past", past).Output("y");
    m.Node("CausalConvWithState", {"x", "w", "", "past"}, {"y", "state"}).String("activation", activation);
    return ImportError(m);
  };
  EXPECT_EQ(error({2, 1, 3}, {2, 2, 2}, "swish"), "no error");
  EXPECT_THAT(error({2, 2, 3}, {2, 2, 2}, "none"), HasSubstr("do not fit"));
  EXPECT_THAT(error({2, 1, 3}, {2, 2, 3}, "none"), HasSubstr("past_state must have shape [2,2,2], not f32[2,2,3]"));
  EXPECT_THAT(error({2, 1, 3}, {2, 2, 2}, "relu"), HasSubstr("activation 'relu' is not one of none, silu, swish"));
}

// A case of LinearAttention: two sequences of three steps, and four query heads that share two key heads. Keys have
// width 3, values width 2.
struct Linear {
  const char* rule;
  bool decay_of_head = false;  // whether the decay is one number per head, instead of one per element of a key
  bool past = true;
  float scale = 0;
  Numbers q = RandomNumbers(2 * 3 * 12, 1), k = RandomNumbers(2 * 3 * 6, 2), v = RandomNumbers(2 * 3 * 4, 3),
          state = RandomNumbers(2 * 2 * 6, 4);
  Numbers decay = RandomNumbers(2 * 3 * 6, 5), beta = RandomNumbers(2 * 3 * 2, 6);

  std::pair<Numbers, Numbers> Expected() const {
    const bool gated = std::string(rule).starts_with("gated"), delta = std::string(rule).ends_with("delta");
    Numbers s = past ? state : Numbers(24), y(2 * 3 * 8);
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t t = 0; t < 3; ++t) {
        for (int64_t h = 0; h < 2; ++h) {
          const int64_t step = b * 3 + t;
          double* at = &s[(b * 2 + h) * 6];
          for (int64_t e = 0; e < 2; ++e) {
            double found = 0;
            for (int64_t d = 0; d < 3 && gated; ++d)
              at[d * 2 + e] *= std::exp(decay_of_head ? decay[step * 2 + h] : decay[step * 6 + h * 3 + d]);
            for (int64_t d = 0; d < 3 && delta; ++d) found += at[d * 2 + e] * k[step * 6 + h * 3 + d];
            const double value = (v[step * 4 + h * 2 + e] - found) * (delta ? beta[step * 2 + h] : 1);
            for (int64_t d = 0; d < 3; ++d) at[d * 2 + e] += k[step * 6 + h * 3 + d] * value;
            for (int64_t g = 0; g < 2; ++g) {
              double sum = 0;
              for (int64_t d = 0; d < 3; ++d) sum += q[step * 12 + (h * 2 + g) * 3 + d] * at[d * 2 + e];
              y[step * 8 + (h * 2 + g) * 2 + e] = sum * (scale == 0 ? 1 / std::sqrt(3.0) : scale);
            }
          }
        }
      }
    }
    return {y, s};
  }

  ModelMaker Model() const {
    ModelMaker m(27);
    m.Input("q", {2, 3, 12}).Input("k", {2, 3, 6}).Input("v", {2, 3, 4});
    if (past) m.Input("past", {2, 2, 3, 2});
    m.Input("decay", {2, 3, decay_of_head ? 2 : 6}).Input("beta", {2, 3, 2}).Output("y").Output("state");
    m.Node("LinearAttention", {"q", "k", "v", past ? "past" : "", "decay", "beta"}, {"y", "state"})
        .Int("q_num_heads", 4)
        .Int("kv_num_heads", 2)
        .String("update_rule", rule)
        .Float("scale", scale);
    return m;
  }
};

TEST(LinearAttention, RulesAndGates) {
  for (const char* rule : {"linear", "gated", "delta", "gated_delta"}) {
    for (const Linear& l : {Linear{rule}, Linear{rule, true}, Linear{rule, false, false, 0.5f}}) {
      std::vector<Numbers> inputs = {l.q, l.k, l.v};
      if (l.past) inputs.push_back(l.state);
      inputs.push_back(l.decay_of_head ? Numbers(l.decay.begin(), l.decay.begin() + 12) : l.decay);
      inputs.push_back(l.beta);
      const auto got = Outputs(l.Model(), inputs);
      const auto [y, state] = l.Expected();
      ExpectNear(got[0].data, y, std::string(rule) + " y");
      ExpectNear(got[1].data, state, std::string(rule) + " state");
    }
  }
}

TEST(LinearAttention, Refusals) {
  auto error = [](int64_t heads, int64_t shared, const char* rule, const std::vector<int64_t>& decay,
                  const std::vector<int64_t>& past = {2, 2, 3, 2}, int64_t steps = 3) {
    ModelMaker m(27);
    m.Input("q", {2, steps, 12}).Input("k", {2, steps, 6}).Input("v", {2, steps, 4}).Input("past", past);
    m.Input("decay", decay).Output("y");
    m.Node("LinearAttention", {"q", "k", "v", "past", "decay"}, {"y", "state"})
        .Int("q_num_heads", heads)
        .Int("kv_num_heads", shared)
        .String("update_rule", rule);
    return ImportError(m);
  };
  EXPECT_EQ(error(4, 2, "gated", {2, 3, 6}), "no error");
  EXPECT_THAT(error(4, 3, "gated", {2, 3, 6}), HasSubstr("4 and 3 heads do not fit"));
  EXPECT_THAT(error(2, 2, "gated", {2, 3, 6}), HasSubstr("queries, keys and values do not fit"));
  EXPECT_THAT(error(4, 2, "odd", {2, 3, 6}), HasSubstr("update_rule 'odd' is not known"));
  EXPECT_THAT(error(4, 2, "gated", {2, 3, 5}), HasSubstr("do not fit 2 heads"));
  EXPECT_THAT(error(4, 2, "delta", {2, 3, 6}), HasSubstr("input 5 is missing"));
  EXPECT_THAT(error(4, 2, "gated", {2, 3, 6}, {2, 2, 2, 3}), HasSubstr("past_state must have shape [2,2,3,2]"));
  EXPECT_THAT(error(4, 2, "linear", {1}, {2, 2, 3, 2}, 2000), HasSubstr("takes 1 to 1024 steps, not 2000"));
}

}  // namespace
}  // namespace autotune::graph
