#include "frontend/onnx/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace autotune::onnx_import {

Result<ValueId> SplitHeads(ImportContext& c, ValueId x, int64_t heads) {
  const Shape& s = c.ShapeOfValue(x);
  if (s.size() != 3) return Err("expects rank 3, not ", c.builder.Spec(x).Text());
  if (heads < 1 || s[2] % heads != 0) return Err(heads, " heads do not divide ", c.builder.Spec(x).Text());
  ValueId parts = TRY(c.Reshape(x, {s[0], s[1], heads, s[2] / heads}));
  return c.Transpose(parts, {0, 2, 1, 3});
}

Result<ValueId> MergeHeads(ImportContext& c, ValueId x) {
  const Shape s = c.ShapeOfValue(x);
  return c.Reshape(TRY(c.Transpose(x, {0, 2, 1, 3})), {s[0], s[2], s[1] * s[3]});
}

Result<std::optional<ValueId>> Combine(ImportContext& c, Op op, std::optional<ValueId> a, std::optional<ValueId> b) {
  if (!a || !b) return a ? a : b;
  return std::optional<ValueId>(TRY(c.Apply(op, *a, *b)));
}

Result<ValueId> Counting(ImportContext& c, Shape shape, int64_t first) {
  TRY(c.Reserve(shape));
  std::vector<double> numbers(TensorSpec{DType::Int(32), shape}.NumElements());
  std::iota(numbers.begin(), numbers.end(), static_cast<double>(first));
  return c.builder.AddConstant("", TensorValue::FromNumbers(DType::Int(32), std::move(shape), numbers));
}

Result<ValueId> FirstKeys(ImportContext& c, ValueId limits, int64_t keys) {
  ValueId index = TRY(Counting(c, {1, 1, 1, keys}));
  ValueId limit = TRY(c.Cast(limits, DType::Int(32)));
  return c.Apply(Op::kLess, index, TRY(c.Reshape(limit, {c.ShapeOfValue(limits)[0], 1, 1, 1})));
}

namespace {

// The layout in which the scores [B, H, S, T] are computed. `group` is the number of consecutive query heads that share
// a head of keys. If it exceeds 1, the layout is [B, H / group, group, S, T], so that the keys broadcast along the
// group. With a single query the layout is [B, H / group, group, T]: the heads of a group are the rows of one product.
struct ScoreLayout {
  int64_t batch = 0, heads = 0, group = 1, queries = 0, keys = 0;

  bool rows_are_heads() const { return group > 1 && queries == 1; }
  // Returns the shape in this layout of a tensor [b, h, s, t]. Each of b, h and s is that of the scores or 1.
  Shape Of(const Shape& s) const {
    if (group == 1) return s;
    const bool every_head = s[1] == heads;
    if (rows_are_heads()) return {s[0], every_head ? heads / group : 1, every_head ? group : 1, s[3]};
    return {s[0], every_head ? heads / group : 1, every_head ? group : 1, s[2], s[3]};
  }
  // Returns the shape in this layout of k or v, [B, H / group, T, D].
  Shape OfKeys(const Shape& s) const { return group == 1 || rows_are_heads() ? s : Shape{s[0], s[1], 1, s[2], s[3]}; }
};

Status CheckShapes(const ImportContext& c, const AttentionParts& p) {
  const Shape &q = c.ShapeOfValue(p.q), &k = c.ShapeOfValue(p.k), &v = c.ShapeOfValue(p.v);
  const bool fit = q.size() == 4 && k.size() == 4 && v.size() == 4 && q[0] == k[0] && q[0] == v[0] && k[1] == v[1] &&
                   k[2] == v[2] && q[3] == k[3] && k[1] > 0 && q[1] % k[1] == 0;
  if (fit) return {};
  return Err("queries, keys and values do not fit: ", c.builder.Spec(p.q).Text(), ", ", c.builder.Spec(p.k).Text(),
             ", ", c.builder.Spec(p.v).Text());
}

// Reshapes a mask [.., s, t] so that it broadcasts to the scores in their layout.
Result<ValueId> InLayout(ImportContext& c, const ScoreLayout& layout, ValueId mask) {
  Shape shape = c.ShapeOfValue(mask);
  const Shape scores = {layout.batch, layout.heads, layout.queries, layout.keys};
  if (shape.size() < 4) shape.insert(shape.begin(), 4 - shape.size(), 1);
  bool fits = shape.size() == 4;
  for (size_t d = 0; fits && d < 4; ++d) fits = shape[d] == 1 || shape[d] == scores[d];
  if (!fits) return Err("mask ", c.builder.Spec(mask).Text(), " does not broadcast to ", ShapeText(scores));
  return c.Reshape(mask, layout.Of(shape));
}

struct VisibleKeys {
  std::optional<ValueId> keep;       // bools that broadcast to [B, H, S, T]; absent: all keys are visible
  bool every_query_sees_one = true;  // false if the positions may hide all keys from a query
};

// Returns the keys t that query s sees: s + offset - left <= t <= s + offset + right.
Result<VisibleKeys> KeysInSight(ImportContext& c, const Positions& p, int64_t queries, int64_t keys) {
  VisibleKeys w;
  auto side = [&](int64_t shift, bool lowest) -> Status {
    // Leave the condition out if all queries meet it. The last query decides for the lower limit, the first for the
    // upper limit.
    if (!p.offsets && (lowest ? queries - 1 + p.offset + shift <= 0 : p.offset + shift >= keys - 1)) return {};
    if (p.offsets || (lowest ? queries - 1 + p.offset + shift >= keys : p.offset + shift < 0))
      w.every_query_sees_one = false;
    ValueId limit = TRY(Counting(c, {1, 1, queries, 1}, (p.offsets ? 0 : p.offset) + shift));
    if (p.offsets) limit = TRY(c.Apply(Op::kAdd, limit, *p.offsets));
    ValueId key = TRY(Counting(c, {1, 1, 1, keys}));
    ValueId inside = TRY(lowest ? c.Apply(Op::kLessEqual, limit, key) : c.Apply(Op::kLessEqual, key, limit));
    w.keep = TRY(Combine(c, Op::kAnd, w.keep, inside));
    return {};
  };
  // Clamp the distances, so that sums of them and positions fit 32 bits. No position exceeds the clamped distance.
  const int64_t far = std::numeric_limits<int32_t>::max() / 4;
  if (p.right) TRY(side(std::min(*p.right, far), false));
  if (p.left) TRY(side(-std::min(*p.left, far), true));
  return w;
}

// Computes softmax along the last axis. A row of minus infinities gives zeros.
Result<ValueId> SoftmaxOrZero(ImportContext& c, ValueId x) {
  const std::vector<int64_t> last = {c.Rank(x) - 1};
  const double least =
      c.Type(x).bits == 64 ? std::numeric_limits<double>::lowest() : std::numeric_limits<float>::lowest();
  ValueId most = TRY(c.ApplyToNumber(Op::kMax, least, TRY(c.Reduce(Op::kReduceMax, x, last))));
  ValueId e = TRY(c.Apply(Op::kExp, TRY(c.Apply(Op::kSub, x, most))));
  // The sum of any other row is at least 1, since its largest element contributes exp(0).
  ValueId sum = TRY(c.ApplyToNumber(Op::kMax, 1, TRY(c.Reduce(Op::kReduceSum, e, last))));
  return c.Apply(Op::kMul, e, TRY(c.ApplyToNumber(Op::kDiv, 1, sum)));
}

}  // namespace

Result<AttentionValues> Attend(ImportContext& c, const AttentionParts& p) {
  TRY(CheckShapes(c, p));
  const Shape q = c.ShapeOfValue(p.q), k = c.ShapeOfValue(p.k), v = c.ShapeOfValue(p.v);
  const ScoreLayout layout{q[0], q[1], q[1] / k[1], q[2], k[2]};
  const VisibleKeys window = TRY(KeysInSight(c, p.positions, q[2], k[2]));
  const Shape scores = {q[0], q[1], q[2], k[2]};
  const DType type = c.Type(p.q);

  ValueId keys =
      TRY(c.Reshape(TRY(c.Transpose(TRY(c.Cast(p.k, type)), {0, 1, 3, 2})), layout.OfKeys({k[0], k[1], k[3], k[2]})));
  ValueId s = TRY(c.Apply(Op::kBatchMatmul, TRY(c.Reshape(p.q, layout.Of(q))), keys));
  if (p.scale != 1) s = TRY(c.ApplyNumber(Op::kMul, s, p.scale));
  AttentionValues out;
  out.scaled = TRY(c.Reshape(s, scores));
  if (p.softcap != 0) {
    s = TRY(c.Apply(Op::kTanh, TRY(c.ApplyNumber(Op::kDiv, s, p.softcap))));
    s = TRY(c.ApplyNumber(Op::kMul, s, p.softcap));
  }
  out.capped = TRY(c.Reshape(s, scores));
  if (p.bias) s = TRY(c.Apply(Op::kAdd, s, TRY(InLayout(c, layout, *p.bias))));
  if (auto keep = TRY(Combine(c, Op::kAnd, window.keep, p.keep)))
    s = TRY(c.Where(TRY(InLayout(c, layout, *keep)), s, c.Number(-std::numeric_limits<double>::infinity(), s)));
  out.masked = TRY(c.Reshape(s, scores));
  if (p.softmax_type) s = TRY(c.Cast(s, *p.softmax_type));
  const bool always_some = window.every_query_sees_one && !p.bias && !p.keep;
  s = TRY(always_some ? c.Emit(Op::kSoftmax, {s}, AxisAttrs{c.Rank(s) - 1}) : SoftmaxOrZero(c, s));
  s = TRY(c.Cast(s, type));
  out.probabilities = TRY(c.Reshape(s, scores));
  ValueId y = TRY(c.Apply(Op::kBatchMatmul, s, TRY(c.Reshape(TRY(c.Cast(p.v, type)), layout.OfKeys(v)))));
  out.y = TRY(c.Reshape(y, {q[0], q[1], q[2], v[3]}));
  return out;
}

namespace {

// Extends a mask [.., s, t] to `keys` keys. The added keys are masked.
Result<ValueId> Lengthened(ImportContext& c, ValueId mask, int64_t keys) {
  const Shape shape = c.ShapeOfValue(mask);
  if (shape.empty()) return Err("the mask must not be a scalar");
  if (shape.back() >= keys) return mask;
  Shape more = shape;
  more.back() = keys - shape.back();
  TRY(c.Reserve(more));
  const double nothing = c.Type(mask).IsBool() ? 0 : -std::numeric_limits<double>::infinity();
  ValueId masked = c.builder.AddConstant("", TensorValue::FromNumbers(c.Type(mask), {}, {nothing}));
  masked = TRY(c.Emit(Op::kBroadcastTo, {masked}, ReshapeAttrs{more}));
  return c.Emit(Op::kConcat, {mask, masked}, AxisAttrs{c.Rank(mask) - 1});
}

// Inputs and outputs of ONNX's Attention.
struct Input {
  enum { kQuery, kKey, kValue, kMask, kPastKey, kPastValue, kLengths };
};
struct Output {
  enum { kResult, kPresentKey, kPresentValue, kScores };
};

struct OnnxAttention {
  AttentionParts parts;
  bool merged = false;  // true: the operands have rank 3, with the heads of a token in one dimension
  ValueId present_key = 0, present_value = 0;
};

Status ReadOperands(ImportContext& c, OnnxAttention& a) {
  AttentionParts& p = a.parts;
  p.q = TRY(c.Tensor(Input::kQuery));
  p.k = TRY(c.Tensor(Input::kKey));
  p.v = TRY(c.Tensor(Input::kValue));
  for (ValueId x : {p.q, p.k, p.v}) {
    if (!c.Type(x).IsFloat() || c.Rank(x) != c.Rank(p.q) || c.Rank(x) < 3 || c.Rank(x) > 4)
      return Err("queries, keys and values must be floats, all of rank 3 or all of rank 4; one is ",
                 c.builder.Spec(x).Text());
  }
  a.merged = c.Rank(p.q) == 3;
  if (a.merged) {
    const int64_t heads = TRY(c.Int("q_num_heads", 0)), shared = TRY(c.Int("kv_num_heads", 0));
    p.q = TRY_NOTE(SplitHeads(c, p.q, heads), "q_num_heads");
    p.k = TRY_NOTE(SplitHeads(c, p.k, shared), "kv_num_heads");
    p.v = TRY_NOTE(SplitHeads(c, p.v, shared), "kv_num_heads");
  }
  if (c.Has(Input::kPastKey) != c.Has(Input::kPastValue)) return Err("past keys and past values come together");
  if (c.Has(Input::kPastKey)) {
    ValueId k = TRY(c.Tensor(Input::kPastKey)), v = TRY(c.Tensor(Input::kPastValue));
    if (c.Rank(k) != 4 || c.Rank(v) != 4) return Err("past keys and values must have rank 4");
    p.positions.offset = c.ShapeOfValue(k)[2];
    p.k = TRY(c.Emit(Op::kConcat, {k, p.k}, AxisAttrs{2}));
    p.v = TRY(c.Emit(Op::kConcat, {v, p.v}, AxisAttrs{2}));
  }
  a.present_key = p.k;
  a.present_value = p.v;
  return CheckShapes(c, p);
}

Status ReadPositions(ImportContext& c, AttentionParts& p) {
  const bool causal = TRY(c.Int("is_causal", 0)) != 0;
  const int64_t left = TRY(c.Int("left_window_size", -1)), right = TRY(c.Int("right_window_size", -1));
  if (left < -1 || right < -1) return Err("windows must be -1 or more, not ", left, " and ", right);
  if (left >= 0) p.positions.left = left;
  if (right >= 0) p.positions.right = right;
  if (causal) p.positions.right = 0;
  if (!c.Has(Input::kLengths)) return {};
  ValueId lengths = TRY(c.Tensor(Input::kLengths));
  const int64_t batch = c.ShapeOfValue(p.q)[0], queries = c.ShapeOfValue(p.q)[2];
  if (!c.Type(lengths).IsInt() || c.ShapeOfValue(lengths) != Shape{batch})
    return Err("nonpad_kv_seqlen must be ", batch, " integers, not ", c.builder.Spec(lengths).Text());
  p.keep = TRY(FirstKeys(c, lengths, c.ShapeOfValue(p.k)[2]));
  if (c.Has(Input::kPastKey)) return {};
  ValueId first = TRY(c.ApplyNumber(Op::kSub, TRY(c.Cast(lengths, DType::Int(32))), static_cast<double>(queries)));
  p.positions.offsets = TRY(c.Reshape(first, {batch, 1, 1, 1}));
  return {};
}

Status ReadMask(ImportContext& c, AttentionParts& p) {
  if (!c.Has(Input::kMask)) return {};
  ValueId mask = TRY(Lengthened(c, TRY(c.Tensor(Input::kMask)), c.ShapeOfValue(p.k)[2]));
  if (c.Type(mask).IsBool()) {
    p.keep = TRY(Combine(c, Op::kAnd, p.keep, mask));
    return {};
  }
  if (!c.Type(mask).IsFloat()) return Err("the mask must be floats or bools, not ", c.builder.Spec(mask).Text());
  p.bias = TRY(c.Cast(mask, c.Type(p.q)));
  return {};
}

Status ReadScores(ImportContext& c, AttentionParts& p) {
  const double width = static_cast<double>(c.ShapeOfValue(p.q)[3]);
  p.scale = c.HasAttr("scale") ? TRY(c.Float("scale", 1)) : 1 / std::sqrt(width);
  p.softcap = TRY(c.Float("softcap", 0));
  if (p.softcap < 0) return Err("softcap must not be negative");
  if (!c.HasAttr("softmax_precision")) return {};
  constexpr int kFloat16 = 10, kBFloat16 = 16;  // ONNX's numbers of these element types
  const int64_t type = TRY(c.Int("softmax_precision", 0));
  if (type == kFloat16 || type == kBFloat16) return {};  // f32 is more precise
  p.softmax_type = TRY(SupportedType(type));
  if (!p.softmax_type->IsFloat()) return Err("softmax_precision must be a type of floats");
  return {};
}

Status ImportAttention(ImportContext& c) {
  OnnxAttention a;
  TRY(ReadOperands(c, a));
  TRY(ReadPositions(c, a.parts));
  TRY(ReadMask(c, a.parts));
  TRY(ReadScores(c, a.parts));
  const AttentionValues values = TRY(Attend(c, a.parts));
  ValueId y = values.y;
  if (a.merged) y = TRY(MergeHeads(c, y));
  TRY(c.Bind(y, Output::kResult));
  TRY(c.Bind(a.present_key, Output::kPresentKey));
  TRY(c.Bind(a.present_value, Output::kPresentValue));
  if (!c.IsUsed(Output::kScores)) return {};
  const ValueId stages[] = {values.scaled, values.capped, values.masked, values.probabilities};
  const int64_t mode = TRY(c.Int("qk_matmul_output_mode", 0));
  if (mode < 0 || mode > 3) return Err("qk_matmul_output_mode must be 0 to 3, not ", mode);
  return c.Bind(stages[mode], Output::kScores);
}

}  // namespace

const std::vector<OperatorRow>& AttentionOperators() {
  static const std::vector<OperatorRow> rows = {
      {"Attention", 23, 28, ImportAttention},
  };
  return rows;
}

}  // namespace autotune::onnx_import
