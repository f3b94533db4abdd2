// Recurrent operators, compared with loops that compute one number at a time by the definition.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "frontend/onnx/import.h"
#include "support/rng.h"
#include "tests/frontend/outputs.h"

namespace autotune::graph {
namespace {

using testing::HasSubstr;
using Function = std::function<double(double)>;

struct CellCase {
  std::string op;
  int64_t steps = 4, batch = 2, width = 3, hidden = 5;
  std::string direction = "forward";
  bool batch_first = false, bias = true, initial = true, peepholes = false, reset_behind = false, coupled = false;
  double clip = 0;               // 0: no clipping
  std::vector<int64_t> lengths;  // empty: every sequence has all steps
  int64_t gates() const { return op == "LSTM" ? 4 : op == "GRU" ? 3 : 1; }
  int64_t directions() const { return direction == "bidirectional" ? 2 : 1; }
};

// All tensors of a case by their ONNX names. X is [steps, batch, width], even if the model has the batch first.
struct Tensors {
  std::map<std::string, Numbers> data;
  double at(const std::string& name, int64_t i) const { return data.at(name)[i]; }
};

Tensors Draw(const CellCase& c, Rng& rng) {
  Tensors t;
  auto draw = [&](const char* name, int64_t n) {
    for (int64_t i = 0; i < n; ++i) t.data[name].push_back(static_cast<float>(rng.Normal() / 2));
  };
  const int64_t d = c.directions(), rows = c.gates() * c.hidden;
  draw("X", c.steps * c.batch * c.width);
  draw("W", d * rows * c.width);
  draw("R", d * rows * c.hidden);
  draw("B", d * 2 * rows);
  draw("H", d * c.batch * c.hidden);
  draw("C", d * c.batch * c.hidden);
  draw("P", d * 3 * c.hidden);
  return t;
}

// y: [steps, directions, batch, hidden]; h and c, the last states: [directions, batch, hidden].
struct Outcome {
  Numbers y, h, c;
};

class Naive {
 public:
  Naive(const CellCase& c, const Tensors& t) : c_(c), t_(t) {}

  Outcome Run() {
    const int64_t n = c_.directions() * c_.batch * c_.hidden;
    out_ = {Numbers(c_.steps * n, 0), Numbers(n, 0), Numbers(n, 0)};
    for (int64_t d = 0; d < c_.directions(); ++d) {
      for (int64_t b = 0; b < c_.batch; ++b) Sequence(d, b);
    }
    return out_;
  }

 private:
  int64_t State(int64_t d, int64_t b, int64_t j) const { return (d * c_.batch + b) * c_.hidden + j; }
  double Clipped(double x) const { return c_.clip > 0 ? std::clamp(x, -c_.clip, c_.clip) : x; }
  double Input(int64_t d, int64_t b, int64_t t, int64_t row) const {
    double sum = c_.bias ? t_.at("B", d * 2 * Rows() + row) : 0;
    for (int64_t i = 0; i < c_.width; ++i)
      sum += t_.at("X", (t * c_.batch + b) * c_.width + i) * t_.at("W", (d * Rows() + row) * c_.width + i);
    return sum;
  }
  double Behind(int64_t d, int64_t row, const Numbers& h) const {
    double sum = c_.bias ? t_.at("B", d * 2 * Rows() + Rows() + row) : 0;
    for (int64_t i = 0; i < c_.hidden; ++i) sum += h[i] * t_.at("R", (d * Rows() + row) * c_.hidden + i);
    return sum;
  }
  int64_t Rows() const { return c_.gates() * c_.hidden; }

  void Sequence(int64_t d, int64_t b) {
    const bool reverse = c_.direction == "reverse" || d == 1;
    const int64_t length = c_.lengths.empty() ? c_.steps : c_.lengths[b];
    h_.assign(c_.hidden, 0), s_.assign(c_.hidden, 0);
    for (int64_t j = 0; c_.initial && j < c_.hidden; ++j) {
      h_[j] = t_.at("H", State(d, b, j));
      if (c_.op == "LSTM") s_[j] = t_.at("C", State(d, b, j));
    }
    for (int64_t i = 0; i < length; ++i) {
      const int64_t t = reverse ? length - 1 - i : i;
      Step(d, b, t);
      for (int64_t j = 0; j < c_.hidden; ++j)
        out_.y[((t * c_.directions() + d) * c_.batch + b) * c_.hidden + j] = h_[j];
    }
    for (int64_t j = 0; j < c_.hidden; ++j) out_.h[State(d, b, j)] = h_[j], out_.c[State(d, b, j)] = s_[j];
  }

  void Step(int64_t d, int64_t b, int64_t t) {
    const Numbers h = h_;
    auto both = [&](int64_t gate, int64_t j) {
      return Input(d, b, t, gate * c_.hidden + j) + Behind(d, gate * c_.hidden + j, h);
    };
    auto peep = [&](int64_t gate, int64_t j, double s) {
      return c_.peepholes ? t_.at("P", (d * 3 + gate) * c_.hidden + j) * s : 0;
    };
    Numbers reset(c_.hidden);
    for (int64_t j = 0; j < c_.hidden; ++j) {
      if (c_.op == "GRU") reset[j] = Sigmoid(Clipped(both(1, j)));
    }
    Numbers kept(c_.hidden);
    for (int64_t j = 0; j < c_.hidden; ++j) kept[j] = reset[j] * h[j];
    for (int64_t j = 0; j < c_.hidden; ++j) {
      if (c_.op == "RNN") {
        h_[j] = std::tanh(Clipped(both(0, j)));
      } else if (c_.op == "GRU") {
        const double z = Sigmoid(Clipped(both(0, j))), x = Input(d, b, t, 2 * c_.hidden + j);
        const double inner =
            c_.reset_behind ? x + reset[j] * Behind(d, 2 * c_.hidden + j, h) : x + Behind(d, 2 * c_.hidden + j, kept);
        h_[j] = (1 - z) * std::tanh(Clipped(inner)) + z * h[j];
      } else {
        const double i = Sigmoid(Clipped(both(0, j) + peep(0, j, s_[j])));
        const double f = c_.coupled ? 1 - i : Sigmoid(Clipped(both(2, j) + peep(2, j, s_[j])));
        s_[j] = f * s_[j] + i * std::tanh(Clipped(both(3, j)));
        h_[j] = Sigmoid(Clipped(both(1, j) + peep(1, j, s_[j]))) * std::tanh(s_[j]);  // not clipped, as in ONNX Runtime
      }
    }
  }

  const CellCase& c_;
  const Tensors& t_;
  Outcome out_;
  Numbers h_, s_;
};

std::vector<float> Floats(const Numbers& numbers) { return {numbers.begin(), numbers.end()}; }

// Exchanges the first two dimensions of [a, b, rest].
Numbers Exchanged(const Numbers& x, int64_t a, int64_t b) {
  const int64_t rest = static_cast<int64_t>(x.size()) / (a * b);
  Numbers y;
  for (int64_t j = 0; j < b; ++j) {
    for (int64_t i = 0; i < a; ++i)
      y.insert(y.end(), x.begin() + (i * b + j) * rest, x.begin() + (i * b + j + 1) * rest);
  }
  return y;
}

ModelMaker ModelOf(const CellCase& c, const Tensors& t) {
  const int64_t d = c.directions(), rows = c.gates() * c.hidden;
  ModelMaker m(14);
  m.Input("X", c.batch_first ? std::vector<int64_t>{c.batch, c.steps, c.width}
                             : std::vector<int64_t>{c.steps, c.batch, c.width});
  m.Floats("W", {d, rows, c.width}, Floats(t.data.at("W"))).Floats("R", {d, rows, c.hidden}, Floats(t.data.at("R")));
  m.Floats("B", {d, 2 * rows}, Floats(t.data.at("B"))).Floats("P", {d, 3 * c.hidden}, Floats(t.data.at("P")));
  for (const char* state : {"H", "C"}) {
    const Numbers& first = t.data.at(state);
    if (c.batch_first) m.Floats(state, {c.batch, d, c.hidden}, Floats(Exchanged(first, d, c.batch)));
    if (!c.batch_first) m.Floats(state, {d, c.batch, c.hidden}, Floats(first));
  }
  if (!c.lengths.empty()) m.Input("lengths", {c.batch}, 6);
  const bool lstm = c.op == "LSTM";
  std::vector<std::string> inputs = {
      "X", "W", "R", c.bias ? "B" : "", c.lengths.empty() ? "" : "lengths", c.initial ? "H" : ""};
  if (lstm) inputs.insert(inputs.end(), {c.initial ? "C" : "", c.peepholes ? "P" : ""});
  std::vector<std::string> outputs = {"Y", "Y_h"};
  if (lstm) outputs.push_back("Y_c");
  NodeMaker node = m.Node(c.op, inputs, outputs);
  node.Int("hidden_size", c.hidden).String("direction", c.direction).Int("layout", c.batch_first);
  if (c.clip > 0) node.Float("clip", static_cast<float>(c.clip));
  if (lstm) node.Int("input_forget", c.coupled);
  if (c.op == "GRU") node.Int("linear_before_reset", c.reset_behind);
  for (const std::string& output : outputs) m.Output(output);
  return m;
}

void ExpectRight(const CellCase& c, uint64_t seed) {
  Rng rng(seed);
  const Tensors t = Draw(c, rng);
  Outcome want = Naive(c, t).Run();
  const int64_t d = c.directions();
  if (c.batch_first) {
    // Reorders y from [steps, directions, batch, hidden] to [batch, steps, directions, hidden].
    Numbers y(want.y.size());
    for (int64_t s = 0; s < c.steps; ++s) {
      for (int64_t k = 0; k < d * c.batch * c.hidden; ++k) {
        const int64_t j = k % c.hidden, b = k / c.hidden % c.batch, e = k / (c.hidden * c.batch);
        y[((b * c.steps + s) * d + e) * c.hidden + j] = want.y[s * d * c.batch * c.hidden + k];
      }
    }
    want = {y, Exchanged(want.h, d, c.batch), Exchanged(want.c, d, c.batch)};
  }
  Result<ImportedModel> imported = Import(ModelOf(c, t));
  ASSERT_TRUE(imported.ok()) << imported.error().Text();
  std::vector<reference::Tensor> in = {{imported->module.main().Spec(imported->module.main().inputs[0]).shape,
                                        c.batch_first ? Exchanged(t.data.at("X"), c.steps, c.batch) : t.data.at("X")}};
  if (!c.lengths.empty()) in.push_back({{c.batch}, Numbers(c.lengths.begin(), c.lengths.end()), DType::Int(32)});
  const auto got = reference::Evaluate(imported->module.main(), in);
  ExpectNear(got[0].data, want.y, "Y");
  ExpectNear(got[1].data, want.h, "Y_h");
  if (c.op == "LSTM") ExpectNear(got[2].data, want.c, "Y_c");
}

TEST(Recurrent, EveryOptionAlone) {
  for (const char* op : {"RNN", "GRU", "LSTM"}) {
    ExpectRight({.op = op}, 1);
    ExpectRight({.op = op, .direction = "reverse"}, 2);
    ExpectRight({.op = op, .direction = "bidirectional"}, 3);
    ExpectRight({.op = op, .batch_first = true}, 4);
    ExpectRight({.op = op, .bias = false}, 5);
    ExpectRight({.op = op, .initial = false}, 6);
    ExpectRight({.op = op, .clip = 0.3}, 7);
    ExpectRight({.op = op, .lengths = {4, 2}}, 8);
    ExpectRight({.op = op, .steps = 20, .batch = 1, .hidden = 1}, 9);
  }
  ExpectRight({.op = "GRU", .reset_behind = true}, 10);
  ExpectRight({.op = "LSTM", .peepholes = true}, 11);
  ExpectRight({.op = "LSTM", .coupled = true}, 12);
}

TEST(Recurrent, DrawnOptions) {
  Rng rng(1);
  auto coin = [&] { return rng.Below(2) == 0; };
  for (uint64_t seed = 100; seed < 140; ++seed) {
    CellCase c{.op = std::vector<std::string>{"RNN", "GRU", "LSTM"}[rng.Below(3)]};
    c.steps = 1 + static_cast<int64_t>(rng.Below(5)), c.batch = 1 + static_cast<int64_t>(rng.Below(3));
    c.direction = std::vector<std::string>{"forward", "reverse", "bidirectional"}[rng.Below(3)];
    c.batch_first = coin(), c.bias = coin(), c.initial = coin(), c.peepholes = coin(), c.reset_behind = coin(),
    c.coupled = coin(), c.clip = coin() ? 0 : 0.4;
    for (int64_t b = 0; c.peepholes && b < c.batch; ++b)
      c.lengths.push_back(static_cast<int64_t>(rng.Below(c.steps + 1)));
    ExpectRight(c, seed);
  }
}

// The outputs of two different cases differ by more than the tolerance, so the comparison is able to fail.
TEST(Recurrent, ADifferenceIsNoticed) {
  const CellCase c{.op = "LSTM"}, other{.op = "LSTM", .coupled = true};
  Rng rng(5);
  const Tensors t = Draw(c, rng);
  EXPECT_GT(std::abs(Naive(c, t).Run().y[3] - Naive(other, t).Run().y[3]), 1e-4);
}

// Returns an RNN of one unit and one step: y = f(x).
ModelMaker OneUnit(const std::string& activation, std::vector<float> alpha, std::vector<float> beta) {
  ModelMaker m(14);
  m.Input("X", {1, 1, 1}).Floats("W", {1, 1, 1}, {1}).Floats("R", {1, 1, 1}, {0}).Output("Y_h");
  NodeMaker node = m.Node("RNN", {"X", "W", "R"}, {"", "Y_h"});
  node.Int("hidden_size", 1).Strings("activations", {activation});
  if (!alpha.empty()) node.Floats("activation_alpha", alpha);
  if (!beta.empty()) node.Floats("activation_beta", beta);
  return m;
}

TEST(Recurrent, Activations) {
  struct Row {
    const char* name;
    std::vector<float> alpha, beta;
    Function function;
  };
  const Row rows[] = {
      {"Relu", {}, {}, [](double x) { return std::max(x, 0.0); }},
      {"TANH", {}, {}, [](double x) { return std::tanh(x); }},
      {"sigmoid", {}, {}, Sigmoid},
      {"Softsign", {}, {}, [](double x) { return x / (1 + std::abs(x)); }},
      {"Softplus", {}, {}, [](double x) { return std::log1p(std::exp(x)); }},
      {"LeakyRelu", {}, {}, [](double x) { return x < 0 ? 0.01 * x : x; }},
      {"LeakyRelu", {0.5f}, {}, [](double x) { return x < 0 ? 0.5 * x : x; }},
      {"ThresholdedRelu", {}, {}, [](double x) { return x > 1 ? x : 0; }},
      {"ThresholdedRelu", {0.25f}, {}, [](double x) { return x > 0.25 ? x : 0; }},
      {"Elu", {}, {}, [](double x) { return x < 0 ? std::expm1(x) : x; }},
      {"Elu", {2}, {}, [](double x) { return x < 0 ? 2 * std::expm1(x) : x; }},
      {"Affine", {2}, {0.5f}, [](double x) { return 2 * x + 0.5; }},
      {"HardSigmoid", {}, {}, [](double x) { return std::clamp(0.2 * x + 0.5, 0.0, 1.0); }},
      {"ScaledTanh", {2}, {0.5f}, [](double x) { return 2 * std::tanh(0.5 * x); }},
  };
  for (const Row& row : rows) {
    Result<ImportedModel> imported = Import(OneUnit(row.name, row.alpha, row.beta));
    ASSERT_TRUE(imported.ok()) << imported.error().Text();
    for (double x : {-3.0, -0.5, 0.5, 1.5}) {
      const auto y = reference::Evaluate(imported->module.main(), {{{1, 1, 1}, {x}}});
      EXPECT_NEAR(y[0].data[0], row.function(x), 1e-6) << row.name << " of " << x;
    }
  }
  EXPECT_THAT(ImportError(OneUnit("Swish", {}, {})), HasSubstr("RNN (node #0): activation 'Swish' is not supported"));
}

// Activations that take parameters take them in order from the lists alpha and beta.
TEST(Recurrent, NumbersOfSeveralActivations) {
  ModelMaker m(14);
  m.Input("X", {1, 1, 1}).Floats("W", {2, 1, 1}, {1, 1}).Floats("R", {2, 1, 1}, {0, 0}).Output("Y_h");
  m.Node("RNN", {"X", "W", "R"}, {"", "Y_h"})
      .Int("hidden_size", 1)
      .String("direction", "bidirectional")
      .Strings("activations", {"Tanh", "Affine"})
      .Floats("activation_alpha", {3})
      .Floats("activation_beta", {4});
  Result<ImportedModel> imported = Import(m);
  ASSERT_TRUE(imported.ok()) << imported.error().Text();
  const auto y = reference::Evaluate(imported->module.main(), {{{1, 1, 1}, {2}}});
  EXPECT_NEAR(y[0].data[0], std::tanh(2.0), 1e-6);
  EXPECT_NEAR(y[0].data[1], 10, 1e-6);
}

TEST(Recurrent, Refusals) {
  auto error = [](const std::function<void(ModelMaker&, std::vector<std::string>&)>& inputs,
                  const std::function<void(NodeMaker&)>& attributes) {
    ModelMaker m(14);
    m.Input("X", {2, 1, 3}).Floats("W", {1, 2, 3}, std::vector<float>(6)).Floats("R", {1, 2, 2}, {0, 0, 0, 0});
    m.Output("Y");
    std::vector<std::string> names = {"X", "W", "R"};
    inputs(m, names);
    NodeMaker node = m.Node("RNN", names, {"Y"}, "r");
    attributes(node);
    return ImportError(m);
  };
  auto none = [](ModelMaker&, std::vector<std::string>&) {};
  auto plain = [](NodeMaker&) {};
  EXPECT_EQ(error(none, plain), "no error");
  EXPECT_THAT(error(none, [](NodeMaker& n) { n.Int("hidden_size", 3); }),
              HasSubstr("RNN (node 'r'): hidden_size contradicts the shape of the weights"));
  EXPECT_THAT(error(none, [](NodeMaker& n) { n.String("direction", "up"); }),
              HasSubstr("direction 'up' is not one of"));
  EXPECT_THAT(error(none,
                    [](NodeMaker& n) {
                      n.Strings("activations", {"Tanh", "Tanh"});
                    }),
              HasSubstr("names 2 activations, not 1"));
  EXPECT_THAT(error(none, [](NodeMaker& n) { n.Float("clip", -1); }), HasSubstr("clip -1 is negative"));
  EXPECT_THAT(error(none, [](NodeMaker& n) { n.String("direction", "bidirectional"); }), HasSubstr("input 2 must be"));
  EXPECT_THAT(error(
                  [](ModelMaker& m, std::vector<std::string>& names) {
                    m.Floats("B", {1, 3}, {0, 0, 0});
                    names.push_back("B");
                  },
                  plain),
              HasSubstr("input 3 must be f32[1,4], not f32[1,3]"));
  ModelMaker m(14);
  m.Input("X", {5000, 1, 1}).Floats("W", {1, 1, 1}, {1}).Floats("R", {1, 1, 1}, {0}).Output("Y");
  m.Node("RNN", {"X", "W", "R"}, {"Y"});
  EXPECT_THAT(ImportError(m), HasSubstr("has 5000 steps in 1 directions; at most 4096"));
}

TEST(Recurrent, ReversedSequences) {
  for (int64_t time : {0, 1}) {
    ModelMaker m(10);
    const std::vector<int64_t> shape = time == 0 ? std::vector<int64_t>{4, 2, 2} : std::vector<int64_t>{2, 4, 2};
    m.Input("x", shape).Input("n", {2}, 7).Output("y");
    m.Node("ReverseSequence", {"x", "n"}, {"y"}).Int("time_axis", time).Int("batch_axis", 1 - time);
    Result<ImportedModel> imported = Import(m);
    ASSERT_TRUE(imported.ok()) << imported.error().Text();
    Numbers x(16), want(16);
    auto at = [&](int64_t t, int64_t b, int64_t i) { return (time == 0 ? t * 2 + b : b * 4 + t) * 2 + i; };
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
    const int64_t lengths[] = {3, 4};
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t t = 0; t < 4; ++t) {
        const int64_t from = t < lengths[b] ? lengths[b] - 1 - t : t;
        for (int64_t i = 0; i < 2; ++i) want[at(t, b, i)] = x[at(from, b, i)];
      }
    }
    const auto y = reference::Evaluate(imported->module.main(), {{shape, x}, {{2}, {3, 4}, DType::Int(64)}});
    EXPECT_EQ(y[0].data, want);
  }
  ModelMaker m(10);
  m.Input("x", {4, 2}).Input("n", {2}, 7).Output("y");
  m.Node("ReverseSequence", {"x", "n"}, {"y"}).Int("time_axis", 1).Int("batch_axis", 1);
  EXPECT_THAT(ImportError(m), HasSubstr("time_axis 1 and batch_axis 1"));
}

}  // namespace
}  // namespace autotune::graph
