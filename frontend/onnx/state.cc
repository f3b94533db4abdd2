// Imports operators that pass a state from one call of the network to the next: caches, causal convolutions, linear
// attention.
#include <cmath>
#include <optional>

#include "frontend/onnx/attention.h"
#include "frontend/onnx/formulas.h"

namespace autotune::onnx_import {
namespace {

// Imports TensorScatter: writes new rows into a cache, along an axis. The new rows of batch entry b begin at row
// write_indices[b] of the cache; the other rows stay.
Status ImportTensorScatter(ImportContext& c) {
  ValueId cache = TRY(c.Tensor(0)), update = TRY(c.Tensor(1));
  const Shape shape = c.ShapeOfValue(cache), fresh = c.ShapeOfValue(update);
  const int64_t axis = TRY(NormalizeAxis(TRY(c.Int("axis", -2)), c.Rank(cache)));
  const std::string mode = TRY(c.String("mode", "linear"));
  if (mode != "linear" && mode != "circular") return Err("mode '", mode, "' is neither linear nor circular");
  Shape fits = shape;
  if (fresh.size() == shape.size()) fits[axis] = fresh[axis];
  if (axis == 0 || fits != fresh || fresh[axis] > shape[axis])
    return Err("update ", c.builder.Spec(update).Text(), " does not fit ", c.builder.Spec(cache).Text());
  Shape along(shape.size(), 1), images = along;
  along[axis] = shape[axis];
  images[0] = shape[0];
  ValueId place = TRY(Counting(c, along));
  if (c.Has(2)) {
    ValueId starts = TRY(c.Tensor(2));
    if (!c.Type(starts).IsInt() || c.ShapeOfValue(starts) != Shape{shape[0]})
      return Err("write_indices must be ", shape[0], " integers, not ", c.builder.Spec(starts).Text());
    starts = TRY(c.Reshape(TRY(c.Cast(starts, DType::Int(32))), images));
    place = TRY(c.Apply(Op::kSub, place, starts));
  }
  if (mode == "circular") place = TRY(c.ApplyNumber(Op::kMod, place, static_cast<double>(shape[axis])));
  const auto last = static_cast<double>(fresh[axis] - 1);
  ValueId is_new = TRY(c.Apply(Op::kAnd, TRY(c.ApplyToNumber(Op::kLessEqual, 0, place)),
                               TRY(c.ApplyNumber(Op::kLessEqual, place, last))));
  place = TRY(c.ApplyToNumber(Op::kMax, 0, TRY(c.ApplyNumber(Op::kMin, place, last))));
  place = TRY(c.Emit(Op::kBroadcastTo, {place}, ReshapeAttrs{shape}));
  ValueId moved = TRY(c.Emit(Op::kGatherElements, {update, place}, AxisAttrs{axis}));
  return c.Bind(TRY(c.Where(is_new, moved, cache)));
}

// Imports CausalConvWithState: a convolution per channel over each position and the ones before it. The state holds the
// positions before the first one.
Status ImportCausalConvWithState(ImportContext& c) {
  enum { kInput, kWeight, kBias, kPast };
  ValueId x = TRY(c.Tensor(kInput)), w = TRY(c.Tensor(kWeight));
  const Shape xs = c.ShapeOfValue(x), ws = c.ShapeOfValue(w);
  if (xs.size() != 3 || ws.size() != 3 || ws[0] != xs[1] || ws[1] != 1 || ws[2] < 1)
    return Err("input ", c.builder.Spec(x).Text(), " and weight ", c.builder.Spec(w).Text(), " do not fit");
  const int64_t before = ws[2] - 1;
  if (c.Has(kPast)) {
    ValueId past = TRY(c.Tensor(kPast));
    const Shape wanted = {xs[0], xs[1], before};
    if (c.ShapeOfValue(past) != wanted)
      return Err("past_state must have shape ", ShapeText(wanted), ", not ", c.builder.Spec(past).Text());
    x = TRY(c.Emit(Op::kConcat, {past, x}, AxisAttrs{2}));
  } else if (before > 0) {
    x = TRY(c.Emit(Op::kPad, {x}, PadAttrs{{0, 0, before}, {0, 0, 0}, {0, 0, 0}, PadMode::kConstant, 0}));
  }
  const int64_t length = c.ShapeOfValue(x)[2];
  ValueId state = TRY(c.Emit(Op::kSlice, {x}, SliceAttrs{{0, 0, length - before}, {xs[0], xs[1], before}, {1, 1, 1}}));
  TRY(c.Bind(state, 1));
  ConvAttrs attrs;
  attrs.groups = xs[1];
  ValueId image = TRY(c.Reshape(x, {xs[0], xs[1], 1, length})), kernel = TRY(c.Reshape(w, {xs[1], 1, 1, ws[2]}));
  ValueId y = TRY(c.Reshape(TRY(c.Emit(Op::kConv2d, {image, kernel}, attrs)), xs));
  if (c.Has(kBias)) {
    ValueId bias = TRY(c.Tensor(kBias));
    if (c.ShapeOfValue(bias) != Shape{xs[1]}) return Err("bias must have shape ", ShapeText({xs[1]}));
    y = TRY(c.Apply(Op::kAdd, y, TRY(c.Reshape(bias, {xs[1], 1}))));
  }
  const std::string activation = TRY(c.String("activation", "none"));
  if (activation == "silu" || activation == "swish") {
    y = TRY(SwishValue(c, y, 1));
  } else if (activation != "none") {
    return Err("activation '", activation, "' is not one of none, silu, swish");
  }
  return c.Bind(y);
}

// The operands of LinearAttention. All of them hold the heads of a token in one dimension.
struct Recurrence {
  ValueId q = 0, k = 0, v = 0;
  std::optional<ValueId> decay, beta;  // factors: exp of the node's input `decay`; the node's input `beta`
  bool delta = false;                  // delta rule: subtract the value that the state holds for the key
  int64_t batch = 0, steps = 0, heads = 0, group = 1, width = 0, value_width = 0;
};

Result<Recurrence> ReadRecurrence(ImportContext& c) {
  enum { kQuery, kKey, kValue, kPast, kDecay, kBeta };
  constexpr int64_t kMostSteps = 1024;  // limit of unrolling, since each step adds nodes to the network
  Recurrence r;
  r.q = TRY(c.Tensor(kQuery));
  r.k = TRY(c.Tensor(kKey));
  r.v = TRY(c.Tensor(kValue));
  const Shape q = c.ShapeOfValue(r.q), k = c.ShapeOfValue(r.k), v = c.ShapeOfValue(r.v);
  const int64_t heads = TRY(c.Int("q_num_heads", 0));
  r.heads = TRY(c.Int("kv_num_heads", 0));
  if (r.heads < 1 || heads < 1 || heads % r.heads != 0) return Err(heads, " and ", r.heads, " heads do not fit");
  const bool fit = q.size() == 3 && k.size() == 3 && v.size() == 3 && q[0] == k[0] && q[0] == v[0] && q[1] == k[1] &&
                   q[1] == v[1] && k[2] % r.heads == 0 && v[2] % r.heads == 0 && q[2] == k[2] / r.heads * heads;
  if (!fit)
    return Err("queries, keys and values do not fit: ", c.builder.Spec(r.q).Text(), ", ", c.builder.Spec(r.k).Text(),
               ", ", c.builder.Spec(r.v).Text());
  r.batch = q[0];
  r.steps = q[1];
  r.group = heads / r.heads;
  r.width = k[2] / r.heads;
  r.value_width = v[2] / r.heads;
  if (r.steps < 1 || r.steps > kMostSteps) return Err("takes 1 to ", kMostSteps, " steps, not ", r.steps);
  const std::string rule = TRY(c.String("update_rule", "gated_delta"));
  const bool gated = rule == "gated" || rule == "gated_delta";
  r.delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !r.delta && rule != "linear") return Err("update_rule '", rule, "' is not known");
  if (gated) r.decay = TRY(c.Apply(Op::kExp, TRY(c.Tensor(kDecay))));
  if (r.delta) r.beta = TRY(c.Tensor(kBeta));
  return r;
}

// Returns step t of x, [B, T, n], reshaped to `shape`.
Result<ValueId> StepOf(ImportContext& c, ValueId x, int64_t t, Shape shape) {
  const Shape all = c.ShapeOfValue(x);
  ValueId row = TRY(c.Emit(Op::kSlice, {x}, SliceAttrs{{0, t, 0}, {all[0], 1, all[2]}, {1, 1, 1}}));
  return c.Reshape(row, std::move(shape));
}

// Returns a gate at step t. It has `width` numbers for each head, one number for each head, or one for all heads.
Result<ValueId> GateOf(ImportContext& c, const Recurrence& r, ValueId gate, int64_t t, int64_t width) {
  const Shape& s = c.ShapeOfValue(gate);
  const bool fits = s.size() == 3 && s[0] == r.batch && s[1] == r.steps;
  if (fits && s[2] == r.heads * width) return StepOf(c, gate, t, {r.batch, r.heads, width, 1});
  if (fits && s[2] == r.heads) return StepOf(c, gate, t, {r.batch, r.heads, 1, 1});
  if (fits && s[2] == 1) return StepOf(c, gate, t, {r.batch, 1, 1, 1});
  return Err("decay or beta ", c.builder.Spec(gate).Text(), " do not fit ", r.heads, " heads");
}

// Imports LinearAttention. Each step multiplies the state S by the decay, then adds k v^T or, by a delta rule,
// k (beta (v - S^T k))^T. Its result is scale q^T S.
Status ImportLinearAttention(ImportContext& c) {
  constexpr size_t kPast = 3;
  const Recurrence r = TRY(ReadRecurrence(c));
  const Shape shape = {r.batch, r.heads, r.width, r.value_width};
  ValueId state = 0;
  if (c.Has(kPast)) {
    state = TRY(c.Tensor(kPast));
    if (c.ShapeOfValue(state) != shape)
      return Err("past_state must have shape ", ShapeText(shape), ", not ", c.builder.Spec(state).Text());
  } else {
    state = TRY(c.Emit(Op::kBroadcastTo, {c.Number(0, r.k)}, ReshapeAttrs{shape}));
  }
  float scale = TRY(c.Float("scale", 0));
  if (scale == 0) scale = static_cast<float>(1 / std::sqrt(static_cast<double>(r.width)));
  std::vector<ValueId> results;
  for (int64_t t = 0; t < r.steps; ++t) {
    ValueId key = TRY(StepOf(c, r.k, t, {r.batch, r.heads, r.width, 1}));
    ValueId value = TRY(StepOf(c, r.v, t, {r.batch, r.heads, 1, r.value_width}));
    if (r.decay) state = TRY(c.Apply(Op::kMul, state, TRY(GateOf(c, r, *r.decay, t, r.width))));
    if (r.delta) {
      ValueId found = TRY(c.Reduce(Op::kReduceSum, TRY(c.Apply(Op::kMul, state, key)), {2}));
      value = TRY(c.Apply(Op::kMul, TRY(c.Apply(Op::kSub, value, found)), TRY(GateOf(c, r, *r.beta, t, 1))));
    }
    state = TRY(c.Apply(Op::kAdd, state, TRY(c.Apply(Op::kMul, key, value))));
    ValueId query = TRY(StepOf(c, r.q, t, {r.batch, r.heads, r.group, r.width}));
    ValueId y = TRY(c.ApplyNumber(Op::kMul, TRY(c.Apply(Op::kBatchMatmul, query, state)), scale));
    results.push_back(TRY(c.Reshape(y, {r.batch, 1, r.heads * r.group * r.value_width})));
  }
  TRY(c.Bind(state, 1));
  return c.Bind(results.size() == 1 ? results[0] : TRY(c.Emit(Op::kConcat, results, AxisAttrs{1})));
}

}  // namespace

const std::vector<OperatorRow>& StateOperators() {
  static const std::vector<OperatorRow> rows = {
      {"TensorScatter", 24, 28, ImportTensorScatter},
      {"CausalConvWithState", 27, 28, ImportCausalConvWithState},
      {"LinearAttention", 27, 28, ImportLinearAttention},
  };
  return rows;
}

}  // namespace autotune::onnx_import
