// Imports RNN, LSTM and GRU by unrolling the steps, and ReverseSequence. For each direction, one matrix product
// projects the inputs of all steps. Each step multiplies the state by the recurrent weights, followed by element-wise
// operators. That is one product, or two in a GRU whose reset gate multiplies the state before the product
// (linear_before_reset = 0). A step selects its row of the projection by a constant operand instead of an attribute, so
// that all steps share their kernels.
#include <algorithm>
#include <cmath>
#include <limits>

#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {
namespace {

constexpr int64_t kMostSteps = 4096;  // limit for both directions together; a step is several nodes of about 2 KB each

enum class Cell { kRnn, kGru, kLstm };
constexpr int64_t GatesOf(Cell cell) { return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1; }
constexpr size_t ActivationsOf(Cell cell) { return cell == Cell::kLstm ? 3 : cell == Cell::kGru ? 2 : 1; }

// The attributes and extents of the node.
struct Net {
  Cell cell = Cell::kRnn;
  int64_t steps = 0, batch = 0, width = 0, hidden = 0;  // X is [steps, batch, width]
  std::vector<bool> reverse;                            // for each direction, whether it runs backwards
  bool batch_first = false;
  double clip = std::numeric_limits<double>::infinity();
  bool coupled = false;                          // LSTM: the forget gate is 1 - the input gate
  bool reset_behind = false;                     // GRU: the reset gate multiplies the product, not its operand
  std::vector<RecurrentActivation> activations;  // those of the first direction, then those of the second
  ValueId x = 0;
  std::optional<ValueId> within;  // bools [steps, batch, 1]: whether the step is part of the sequence; absent: all are
  std::vector<ValueId> at;        // for each step, a scalar with its number
  int64_t directions() const { return static_cast<int64_t>(reverse.size()); }
};

// The weights of one direction.
struct Weights {
  ValueId recurrent = 0;               // [hidden, gates * hidden]
  ValueId projected = 0;               // the input projection with its bias, [steps, batch, gates * hidden]
  std::optional<ValueId> behind_bias;  // GRU with reset_behind: the bias of the product, [gates * hidden]
  std::vector<ValueId> peepholes;      // LSTM: weights of the input, output and forget gates, [hidden]; may be empty
  const RecurrentActivation* activations = nullptr;
};

struct Carried {
  ValueId h = 0, c = 0;  // [batch, hidden]; only an LSTM has c
};

Result<std::vector<RecurrentActivation>> ReadActivations(const ImportContext& c, Cell cell, int64_t directions) {
  std::vector<std::string> names;
  for (int64_t d = 0; d < directions; ++d) {
    if (cell != Cell::kRnn) names.push_back("Sigmoid");
    names.resize(names.size() + (cell == Cell::kLstm ? 2 : 1), "Tanh");
  }
  const size_t count = names.size();
  names = TRY(c.StringList("activations", names));
  if (names.size() != count) return Err("names ", names.size(), " activations, not ", count);
  const std::vector<float> alphas = TRY(c.FloatList("activation_alpha", {}));
  const std::vector<float> betas = TRY(c.FloatList("activation_beta", {}));
  std::vector<RecurrentActivation> out;
  size_t next_alpha = 0, next_beta = 0;
  for (const std::string& name : names) {
    std::optional<RecurrentActivation> row = FindRecurrentActivation(name);
    if (!row) return Err("activation '", name, "' is not supported");
    if (row->numbers > 0 && next_alpha < alphas.size()) row->alpha = alphas[next_alpha++];
    if (row->numbers > 1 && next_beta < betas.size()) row->beta = betas[next_beta++];
    out.push_back(*row);
  }
  return out;
}

Result<Net> ReadNet(ImportContext& c, Cell cell) {
  Net net{.cell = cell};
  const std::string direction = TRY(c.String("direction", "forward"));
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return Err("direction '", direction, "' is not one of forward, reverse, bidirectional");
  net.reverse = {direction == "reverse"};
  if (direction == "bidirectional") net.reverse = {false, true};
  const int64_t layout = c.opset >= 14 ? TRY(c.Int("layout", 0)) : 0;
  if (layout != 0 && layout != 1) return Err("layout must be 0 or 1, not ", layout);
  net.batch_first = layout == 1;
  if (c.HasAttr("clip")) net.clip = TRY(c.Float("clip", 0));
  if (!(net.clip >= 0)) return Err("clip ", net.clip, " is negative");
  net.coupled = TRY(c.Int("input_forget", 0)) != 0;
  net.reset_behind = TRY(c.Int("linear_before_reset", 0)) != 0;
  net.activations = TRY(ReadActivations(c, cell, net.directions()));

  net.x = TRY(c.Tensor(0));
  if (!c.Type(net.x).IsFloat()) return Err("is supported on floats, not on ", c.builder.Spec(net.x).Text());
  if (c.Rank(net.x) != 3) return Err("the input must have rank 3, not ", c.builder.Spec(net.x).Text());
  if (net.batch_first) net.x = TRY(c.Transpose(net.x, {1, 0, 2}));
  const Shape shape = c.ShapeOfValue(net.x), recurrent = TRY(c.ShapeOf(2));
  net.steps = shape[0], net.batch = shape[1], net.width = shape[2];
  net.hidden = recurrent.empty() ? 0 : recurrent.back();
  if (net.hidden != TRY(c.Int("hidden_size", net.hidden)))
    return Err("hidden_size contradicts the shape of the weights, ", ShapeText(recurrent));
  if (net.steps < 1 || net.batch < 1 || net.hidden < 1) return Err("has no steps, no batch or no units");
  if (net.steps * net.directions() > kMostSteps)
    return Err("has ", net.steps, " steps in ", net.directions(), " directions; at most ", kMostSteps,
               " together are supported");
  return net;
}

// Reads sequence_lens and sets `within`, unless all sequences have all steps.
Status ReadLengths(ImportContext& c, Net& net) {
  if (!c.Has(4)) return {};
  if (TRY(c.ShapeOf(4)) != Shape{net.batch})
    return Err("sequence_lens must have one element for each of ", net.batch, " sequences");
  if (c.Constant(4)) {
    const std::vector<int64_t> lengths = TRY(c.Ints(4, "sequence_lens"));
    for (int64_t n : lengths) {
      if (n < 0 || n > net.steps) return Err("sequence_lens holds ", n, ", but the input has ", net.steps, " steps");
    }
    if (std::all_of(lengths.begin(), lengths.end(), [&](int64_t n) { return n == net.steps; })) return {};
  }
  std::vector<int32_t> numbers(net.steps);
  for (int64_t t = 0; t < net.steps; ++t) numbers[t] = static_cast<int32_t>(t);
  ValueId step = c.builder.AddConstant("", TensorValue::Of<int32_t>({net.steps, 1, 1}, numbers));
  ValueId lengths = TRY(c.Cast(TRY(c.Tensor(4)), DType::Int(32)));
  net.within = TRY(c.Apply(Op::kLess, step, TRY(c.Reshape(lengths, {1, net.batch, 1}))));
  return {};
}

// Returns the part of input `i` for direction d. The input has one tensor of `shape` for each direction.
Result<ValueId> OfDirection(ImportContext& c, size_t i, const Net& net, int64_t d, const Shape& shape) {
  ValueId v = TRY(c.Tensor(i));
  Shape all = shape;
  all.insert(all.begin(), net.directions());
  if (c.ShapeOfValue(v) != all || c.Type(v) != c.Type(net.x))
    return Err("input ", i, " must be ", TensorSpec{c.Type(net.x), all}.Text(), ", not ", c.builder.Spec(v).Text());
  return c.Reshape(TRY(c.Cut(v, 0, d, 1)), shape);
}

Result<Weights> ReadWeights(ImportContext& c, const Net& net, int64_t d) {
  const int64_t h = net.hidden, rows = GatesOf(net.cell) * h;
  Weights w{.activations = &net.activations[d * ActivationsOf(net.cell)]};
  w.recurrent = TRY(c.Transpose(TRY(OfDirection(c, 2, net, d, {rows, h})), {1, 0}));
  ValueId input = TRY(c.Transpose(TRY(OfDirection(c, 1, net, d, {rows, net.width})), {1, 0}));
  w.projected = TRY(MatMulValues(c, TRY(c.Reshape(net.x, {net.steps * net.batch, net.width})), input));
  if (c.Has(3)) {
    ValueId both = TRY(OfDirection(c, 3, net, d, {2 * rows}));
    ValueId bias = TRY(c.Cut(both, 0, 0, rows)), behind = TRY(c.Cut(both, 0, rows, rows));
    if (net.cell == Cell::kGru && net.reset_behind) {
      w.behind_bias = behind;
    } else {
      bias = TRY(c.Apply(Op::kAdd, bias, behind));
    }
    w.projected = TRY(c.Apply(Op::kAdd, w.projected, bias));
  }
  w.projected = TRY(c.Reshape(w.projected, {net.steps, net.batch, rows}));
  if (net.cell == Cell::kLstm && c.Has(7)) {
    ValueId all = TRY(OfDirection(c, 7, net, d, {3 * h}));
    for (int64_t gate = 0; gate < 3; ++gate) w.peepholes.push_back(TRY(c.Cut(all, 0, gate * h, h)));
  }
  return w;
}

// Returns the initial value of a state: input `i`, or zeros.
Result<ValueId> Initial(ImportContext& c, size_t i, const Net& net, int64_t d) {
  if (!c.Has(i)) {
    TRY(c.Reserve({net.batch, net.hidden}));
    const std::vector<double> zeros(net.batch * net.hidden, 0);
    return c.builder.AddConstant("", TensorValue::FromNumbers(c.Type(net.x), {net.batch, net.hidden}, zeros));
  }
  if (!net.batch_first) return OfDirection(c, i, net, d, {net.batch, net.hidden});
  ValueId v = TRY(c.Tensor(i));
  if (c.ShapeOfValue(v) != Shape{net.batch, net.directions(), net.hidden} || c.Type(v) != c.Type(net.x))
    return Err("input ", i, " is ", c.builder.Spec(v).Text(), ", which does not fit");
  return c.Reshape(TRY(c.Cut(v, 1, d, 1)), {net.batch, net.hidden});
}

// Returns the rows of step t. The index is a constant operand instead of an attribute, so that all steps share one
// kernel.
Result<ValueId> OfStep(ImportContext& c, const Net& net, ValueId v, int64_t t) {
  return c.Emit(Op::kGather, {v, net.at[t]}, AxisAttrs{0});
}

Result<ValueId> Unclipped(ImportContext& c, const Weights& w, int which, ValueId x) {
  return w.activations[which].apply(c, w.activations[which], x);
}

// Clips x, then applies activation number `which` of a direction.
Result<ValueId> Activated(ImportContext& c, const Net& net, const Weights& w, int which, ValueId x) {
  if (std::isfinite(net.clip)) {
    const float clip = static_cast<float>(net.clip);
    x = TRY(c.Emit(Op::kClip, {x}, ClipAttrs{-clip, clip}));
  }
  return Unclipped(c, w, which, x);
}

Result<ValueId> Gate(ImportContext& c, const Net& net, ValueId all, int64_t gate) {
  return c.Cut(all, 1, gate * net.hidden, net.hidden);
}

Result<ValueId> Plus(ImportContext& c, ValueId a, Result<ValueId> b) { return c.Apply(Op::kAdd, a, TRY(b)); }

Result<Carried> RnnStep(ImportContext& c, const Net& net, const Weights& w, int64_t t, Carried before) {
  ValueId z = TRY(c.Apply(Op::kMatmul, before.h, w.recurrent));
  z = TRY(Plus(c, z, OfStep(c, net, w.projected, t)));
  z = TRY(Activated(c, net, w, 0, z));
  return Carried{z, 0};
}

// Returns the new state u h + (1 - u) fresh, where u is the activation of the update gate `z`. If that is the sigmoid,
// 1 - u is computed as sigmoid(-z): where 1 - u is small, the subtraction would lose its digits.
Result<Carried> Updated(ImportContext& c, const Net& net, const Weights& w, ValueId z, ValueId h, ValueId fresh) {
  const ValueId kept = TRY(Activated(c, net, w, 0, z));
  if (std::string_view(w.activations[0].name) != "sigmoid") {
    const ValueId change = TRY(c.Apply(Op::kMul, kept, TRY(c.Apply(Op::kSub, h, fresh))));
    fresh = TRY(c.Apply(Op::kAdd, fresh, change));
    return Carried{fresh, 0};
  }
  const ValueId replaced = TRY(Activated(c, net, w, 0, TRY(c.Apply(Op::kNeg, z))));
  fresh = TRY(Plus(c, TRY(c.Apply(Op::kMul, kept, h)), c.Apply(Op::kMul, replaced, fresh)));
  return Carried{fresh, 0};
}

// Computes a step of a GRU from the gates z and r and the new value.
Result<Carried> GruStep(ImportContext& c, const Net& net, const Weights& w, int64_t t, Carried before) {
  const int64_t h = net.hidden;
  ValueId z = 0, fresh = 0;
  if (net.reset_behind) {
    ValueId product = TRY(c.Apply(Op::kMatmul, before.h, w.recurrent));
    if (w.behind_bias) product = TRY(c.Apply(Op::kAdd, product, *w.behind_bias));
    ValueId x = TRY(OfStep(c, net, w.projected, t));
    z = TRY(Plus(c, TRY(Gate(c, net, product, 0)), Gate(c, net, x, 0)));
    ValueId r = TRY(Plus(c, TRY(Gate(c, net, product, 1)), Gate(c, net, x, 1)));
    r = TRY(Activated(c, net, w, 0, r));
    fresh = TRY(c.Apply(Op::kMul, r, TRY(Gate(c, net, product, 2))));
    fresh = TRY(Plus(c, fresh, Gate(c, net, x, 2)));
  } else {
    ValueId product = TRY(c.Apply(Op::kMatmul, before.h, TRY(c.Cut(w.recurrent, 1, 0, 2 * h))));
    ValueId x = TRY(OfStep(c, net, w.projected, t));
    ValueId zr = TRY(Plus(c, product, c.Cut(x, 1, 0, 2 * h)));
    ValueId r = TRY(Activated(c, net, w, 0, TRY(Gate(c, net, zr, 1))));
    ValueId kept = TRY(c.Apply(Op::kMul, r, before.h));
    fresh = TRY(c.Apply(Op::kMatmul, kept, TRY(c.Cut(w.recurrent, 1, 2 * h, h))));
    fresh = TRY(Plus(c, fresh, Gate(c, net, x, 2)));
    z = TRY(Gate(c, net, zr, 0));
  }
  fresh = TRY(Activated(c, net, w, 1, fresh));
  return Updated(c, net, w, z, before.h, fresh);
}

Result<Carried> LstmStep(ImportContext& c, const Net& net, const Weights& w, int64_t t, Carried before) {
  enum { kInput, kOutput, kForget, kCell };
  ValueId z = TRY(c.Apply(Op::kMatmul, before.h, w.recurrent));
  z = TRY(Plus(c, z, OfStep(c, net, w.projected, t)));
  auto gate = [&](int which, ValueId state) -> Result<ValueId> {
    ValueId x = TRY(Gate(c, net, z, which));
    if (!w.peepholes.empty()) x = TRY(Plus(c, x, c.Apply(Op::kMul, state, w.peepholes[which])));
    return Activated(c, net, w, 0, x);
  };
  ValueId input = TRY(gate(kInput, before.c));
  ValueId forget = net.coupled ? TRY(c.ApplyToNumber(Op::kSub, 1, input)) : TRY(gate(kForget, before.c));
  ValueId fresh = TRY(Activated(c, net, w, 1, TRY(Gate(c, net, z, kCell))));
  ValueId state = TRY(c.Apply(Op::kMul, forget, before.c));
  state = TRY(Plus(c, state, c.Apply(Op::kMul, input, fresh)));
  ValueId output = TRY(gate(kOutput, state));
  // ONNX Runtime does not clip the state here, although the specification may be read so.
  ValueId h = TRY(c.Apply(Op::kMul, output, TRY(Unclipped(c, w, 2, state))));
  return Carried{h, state};
}

// The result of all steps of a direction: the outputs in the order of time, [steps, batch, hidden], and the last state.
struct Unrolled {
  ValueId outputs = 0;
  Carried last;
};

Result<Unrolled> Unroll(ImportContext& c, const Net& net, int64_t d) {
  const Weights w = TRY(ReadWeights(c, net, d));
  Carried now;
  now.h = TRY(Initial(c, 5, net, d));
  if (net.cell == Cell::kLstm) now.c = TRY(Initial(c, 6, net, d));
  std::vector<ValueId> outputs(net.steps);
  for (int64_t i = 0; i < net.steps; ++i) {
    // A reversed sequence begins at its own last step. Until then its state stays the initial one.
    const int64_t t = net.reverse[d] ? net.steps - 1 - i : i;
    Carried next = net.cell == Cell::kLstm  ? TRY(LstmStep(c, net, w, t, now))
                   : net.cell == Cell::kGru ? TRY(GruStep(c, net, w, t, now))
                                            : TRY(RnnStep(c, net, w, t, now));
    outputs[t] = next.h;
    if (net.within) {
      ValueId within = TRY(OfStep(c, net, *net.within, t));
      outputs[t] = TRY(c.Where(within, next.h, c.Number(0, next.h)));
      next.h = TRY(c.Where(within, next.h, now.h));
      if (net.cell == Cell::kLstm) next.c = TRY(c.Where(within, next.c, now.c));
    }
    now = next;
  }
  Unrolled all{.last = now};
  if (c.IsUsed(0)) all.outputs = TRY(c.Stack(outputs, 0));
  return all;
}

// Binds the states of all directions to an output, [directions, batch, hidden], or with the batch first.
Status BindStates(ImportContext& c, const Net& net, const std::vector<ValueId>& states, size_t output) {
  ValueId all = TRY(c.Stack(states, 0));
  if (net.batch_first) all = TRY(c.Transpose(all, {1, 0, 2}));
  return c.Bind(all, output);
}

template <Cell cell>
Status ImportRecurrent(ImportContext& c) {
  Net net = TRY(ReadNet(c, cell));
  TRY(ReadLengths(c, net));
  for (int64_t t = 0; t < net.steps; ++t)
    net.at.push_back(c.builder.AddConstant("", TensorValue::Of<int64_t>({}, {t})));
  std::vector<ValueId> outputs, hidden, cells;
  for (int64_t d = 0; d < net.directions(); ++d) {
    const Unrolled u = TRY(Unroll(c, net, d));
    outputs.push_back(u.outputs);
    hidden.push_back(u.last.h);
    cells.push_back(u.last.c);
  }
  if (c.IsUsed(0)) {
    for (ValueId& v : outputs) v = TRY(c.Reshape(v, {net.steps, 1, net.batch, net.hidden}));
    ValueId y = outputs.size() == 1 ? outputs[0] : TRY(c.Emit(Op::kConcat, outputs, AxisAttrs{1}));
    if (net.batch_first) y = TRY(c.Transpose(y, {2, 0, 1, 3}));
    TRY(c.Bind(y, 0));
  }
  TRY(BindStates(c, net, hidden, 1));
  return cell == Cell::kLstm ? BindStates(c, net, cells, 2) : Status();
}

// Imports ReverseSequence: reverses the first sequence_lens[b] steps of batch entry b and keeps the others, with a
// gather of rows.
Status ImportReverseSequence(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0)), lengths = TRY(c.Cast(TRY(c.Tensor(1)), DType::Int(64)));
  const Shape shape = c.ShapeOfValue(x);
  const int64_t time = TRY(c.Int("time_axis", 0)), batch = TRY(c.Int("batch_axis", 1));
  if (shape.size() < 2 || std::min(time, batch) < 0 || time + batch != 1)
    return Err("time_axis ", time, " and batch_axis ", batch, " of ", ShapeText(shape), " must be 0 and 1");
  if (c.ShapeOfValue(lengths) != Shape{shape[batch]})
    return Err("sequence_lens must be one for each of ", shape[batch], ", not ", c.builder.Spec(lengths).Text());
  if (c.builder.Spec(x).NumElements() == 0) return c.Bind(x);
  const int64_t steps = shape[time], count = shape[batch];
  TRY(c.Reserve({steps, count}));
  std::vector<int64_t> numbers(steps), batches(count);
  for (int64_t t = 0; t < steps; ++t) numbers[t] = t;
  for (int64_t b = 0; b < count; ++b) batches[b] = time == 0 ? b : b * steps;
  auto along = [&](int64_t axis, int64_t n) { return axis == 0 ? Shape{n, 1} : Shape{1, n}; };
  ValueId t = c.builder.AddConstant("", TensorValue::Of<int64_t>(along(time, steps), numbers));
  ValueId b = c.builder.AddConstant("", TensorValue::Of<int64_t>(along(batch, count), batches));
  ValueId n = TRY(c.Reshape(lengths, along(batch, count)));
  ValueId mirrored = TRY(c.Apply(Op::kSub, TRY(c.ApplyNumber(Op::kSub, n, 1)), t));
  ValueId from = TRY(c.Where(TRY(c.Apply(Op::kLess, t, n)), mirrored, t));
  if (time == 0) from = TRY(c.ApplyNumber(Op::kMul, from, static_cast<double>(count)));
  from = TRY(c.Apply(Op::kAdd, from, b));
  Shape rows = {steps * count};
  rows.insert(rows.end(), shape.begin() + 2, shape.end());
  x = TRY(c.Reshape(x, rows));
  return c.Bind(TRY(c.Emit(Op::kGather, {x, from}, AxisAttrs{0})));
}

}  // namespace

const std::vector<OperatorRow>& RecurrentOperators() {
  static const std::vector<OperatorRow> rows = {
      {"RNN", 1, 28, ImportRecurrent<Cell::kRnn>},
      {"GRU", 1, 28, ImportRecurrent<Cell::kGru>},
      {"LSTM", 1, 28, ImportRecurrent<Cell::kLstm>},
      {"ReverseSequence", 10, 28, ImportReverseSequence},
  };
  return rows;
}

}  // namespace autotune::onnx_import
