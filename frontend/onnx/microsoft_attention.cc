// The attention operators of ONNX Runtime's domain com.microsoft: Attention, MultiHeadAttention, GroupQueryAttention
// and RotaryEmbedding. Caches that ONNX Runtime updates in place are refused, since graph operators do not change their
// operands.
#include <cmath>
#include <optional>

#include "frontend/onnx/attention.h"
#include "frontend/onnx/formulas.h"

namespace autotune::onnx_import {
namespace {

// Returns the scale of the products. 0 means the default, as in ONNX Runtime.
Result<double> ScaleOf(const ImportContext& c, int64_t width) {
  const float scale = TRY(c.Float("scale", 0));
  return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(width));
}

Result<int64_t> Positive(const ImportContext& c, const char* name) {
  const int64_t n = TRY(c.Int(name, 0));
  if (n < 1) return Err(name, " must be positive, not ", n);
  return n;
}

Status Refuse(const ImportContext& c, size_t input, const char* name) {
  if (c.Has(input)) return Err("input ", name, " is not supported");
  return {};
}
Status RefuseAttr(const ImportContext& c, const char* name) {
  if (TRY(c.Int(name, 0)) != 0) return Err("attribute ", name, " is not supported");
  return {};
}

Result<ValueId> WithBias(ImportContext& c, ValueId x, std::optional<ValueId> bias, int64_t begin) {
  if (!bias) return x;
  return c.Apply(Op::kAdd, x, TRY(c.Cut(*bias, 0, begin, c.ShapeOfValue(x).back())));
}

// Returns floats that are added to the scores: mask_filter_value where `keep` is false, 0 elsewhere.
Result<ValueId> Filtered(ImportContext& c, ValueId keep, ValueId like) {
  const float filter = TRY(c.Float("mask_filter_value", -10000));
  return c.Where(keep, c.Number(0, like), c.Number(filter, like));
}

// Returns a mask that is true for valid keys. The input has one of these forms: integers that are positive for a valid
// key, [B, T] or [B, S, T]; the number of valid keys of each batch entry, [B]; or the ends of the valid keys of all
// batch entries, then their begins, [2 B].
Result<ValueId> KeyMask(ImportContext& c, size_t input, const Shape& q, int64_t keys) {
  ValueId mask = TRY(c.Tensor(input));
  const Shape shape = c.ShapeOfValue(mask);
  if (!c.Type(mask).IsInt()) return Err("the mask must be integers, not ", c.builder.Spec(mask).Text());
  const int64_t batch = q[0], queries = q[2];
  if (shape == Shape{batch}) return FirstKeys(c, mask, keys);
  if (shape == Shape{2 * batch}) {
    ValueId before_end = TRY(FirstKeys(c, TRY(c.Cut(mask, 0, 0, batch)), keys));
    ValueId before_start = TRY(FirstKeys(c, TRY(c.Cut(mask, 0, batch, batch)), keys));
    return c.Apply(Op::kAnd, before_end, TRY(c.Apply(Op::kNot, before_start)));
  }
  const bool per_query = shape == Shape{batch, queries, keys};
  if (!per_query && shape != Shape{batch, keys})
    return Err("a mask ", c.builder.Spec(mask).Text(), " is not supported");
  mask = TRY(c.Reshape(mask, {batch, 1, per_query ? queries : 1, keys}));
  return c.ApplyToNumber(Op::kLess, 0, mask);
}

// Adds the bias of an input, which broadcasts to the scores.
Status AddBias(ImportContext& c, AttentionParts& p, size_t input) {
  if (!c.Has(input)) return {};
  p.bias = TRY(Combine(c, Op::kAdd, p.bias, TRY(c.Tensor(input))));
  return {};
}

Status AddMask(ImportContext& c, AttentionParts& p, size_t input) {
  if (!c.Has(input)) return {};
  ValueId keep = TRY(KeyMask(c, input, c.ShapeOfValue(p.q), c.ShapeOfValue(p.k)[2]));
  p.bias = TRY(Filtered(c, keep, p.q));
  return {};
}

// Queries, keys and values, [B, S, width] each, from one product with the weights.
struct Projected {
  ValueId q = 0, k = 0, v = 0;
};

Result<Projected> Project(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0)), w = TRY(c.Tensor(1));
  if (c.Rank(x) != 3 || c.Rank(w) != 2) return Err("takes an input of rank 3 and weights of rank 2");
  const int64_t all = c.ShapeOfValue(w)[1];
  std::vector<int64_t> widths = TRY(c.IntList("qkv_hidden_sizes", {all / 3, all / 3, all / 3}));
  if (widths.size() != 3 || widths[0] + widths[1] + widths[2] != all || widths[0] != widths[1])
    return Err("qkv_hidden_sizes ", ShapeText(widths), " do not fit weights ", c.builder.Spec(w).Text());
  ValueId y = TRY(MatMulValues(c, x, w));
  if (c.Has(2)) {
    y = TRY(c.Apply(Op::kAdd, y, TRY(c.Tensor(2))));
    if (c.ShapeOfValue(y).back() != all || c.Rank(y) != 3) return Err("the bias must have ", all, " elements");
  }
  Projected p;
  p.q = TRY(c.Cut(y, 2, 0, widths[0]));
  p.k = TRY(c.Cut(y, 2, widths[0], widths[1]));
  p.v = TRY(c.Cut(y, 2, widths[0] + widths[1], widths[2]));
  return p;
}

// Puts the past keys and values, one input [2, B, H, P, D], before the new ones. Binds the joined keys and values to an
// output of the same layout.
Status JoinPast(ImportContext& c, AttentionParts& p, size_t past_input, size_t present_output) {
  const Shape now = c.ShapeOfValue(p.k);
  if (c.Has(past_input)) {
    ValueId past = TRY(c.Tensor(past_input));
    const Shape s = c.ShapeOfValue(past);
    if (s.size() != 5 || s[0] != 2) return Err("past must have shape [2, batch, heads, length, width]");
    auto half = [&](int64_t i) -> Result<ValueId> {
      return c.Reshape(TRY(c.Cut(past, 0, i, 1)), {s[1], s[2], s[3], s[4]});
    };
    p.positions.offset = s[3];
    const ValueId k = TRY(half(0)), v = TRY(half(1));
    p.k = TRY(c.Emit(Op::kConcat, {k, p.k}, AxisAttrs{2}));
    p.v = TRY(c.Emit(Op::kConcat, {v, p.v}, AxisAttrs{2}));
  }
  if (!c.IsUsed(present_output)) return {};
  auto one = [&](ValueId x) -> Result<ValueId> {
    const Shape& s = c.ShapeOfValue(x);
    return c.Reshape(x, {1, s[0], s[1], s[2], s[3]});
  };
  const ValueId k = TRY(one(p.k)), v = TRY(one(p.v));
  return c.Bind(TRY(c.Emit(Op::kConcat, {k, v}, AxisAttrs{0})), present_output);
}

Status BindMerged(ImportContext& c, const AttentionParts& p) { return c.Bind(TRY(MergeHeads(c, TRY(Attend(c, p)).y))); }

Status ImportProjectedAttention(ImportContext& c) {
  enum { kInput, kWeights, kBias, kMaskIndex, kPast, kScoreBias, kPastLength };
  TRY(Refuse(c, kPastLength, "past_sequence_length"));
  for (const char* name : {"do_rotary", "past_present_share_buffer"}) TRY(RefuseAttr(c, name));
  const int64_t heads = TRY(Positive(c, "num_heads"));
  const Projected x = TRY(Project(c));
  AttentionParts p;
  p.q = TRY(SplitHeads(c, x.q, heads));
  p.k = TRY(SplitHeads(c, x.k, heads));
  p.v = TRY(SplitHeads(c, x.v, heads));
  p.scale = TRY(ScaleOf(c, c.ShapeOfValue(p.q)[3]));
  TRY(JoinPast(c, p, kPast, 1));
  TRY(AddMask(c, p, kMaskIndex));
  TRY(AddBias(c, p, kScoreBias));
  if (TRY(c.Int("unidirectional", 0)) != 0) p.positions.right = 0;
  return BindMerged(c, p);
}

// Returns one part of a tensor [B, S, H, parts, D] as [B, H, S, D].
Result<ValueId> Unpacked(ImportContext& c, ValueId x, int64_t part) {
  const Shape s = c.ShapeOfValue(x);
  ValueId one = TRY(c.Reshape(TRY(c.Cut(x, 3, part, 1)), {s[0], s[1], s[2], s[4]}));
  return c.Transpose(one, {0, 2, 1, 3});
}

// Returns the keys or values of MultiHeadAttention, [B, H, T, D]. An input [B, T, H * D] gets its part of the bias and
// is split into heads. An input of rank 4 has that layout already.
Result<ValueId> KeysOrValues(ImportContext& c, size_t input, int64_t heads, std::optional<ValueId> bias,
                             int64_t begin) {
  ValueId x = TRY(c.Tensor(input));
  if (c.Rank(x) == 4) return x;
  return SplitHeads(c, TRY(WithBias(c, x, bias, begin)), heads);
}

Status ReadMultiHead(ImportContext& c, AttentionParts& p, int64_t heads) {
  enum { kQuery, kKey, kValue, kBias };
  ValueId q = TRY(c.Tensor(kQuery));
  const int packed = c.Rank(q) == 5 ? 3 : c.Has(kKey) && TRY(c.ShapeOf(kKey)).size() == 5 ? 2 : 0;
  std::optional<ValueId> bias;
  if (c.Has(kBias)) bias = TRY(c.Tensor(kBias));
  if (bias && (packed > 0 || c.Rank(*bias) != 1)) return Err("a bias beside packed operands is not supported");
  if (packed == 3) {
    if (c.ShapeOfValue(q)[3] != 3 || c.ShapeOfValue(q)[2] != heads)
      return Err("packed queries, keys and values do not fit");
    p.q = TRY(Unpacked(c, q, 0));
    p.k = TRY(Unpacked(c, q, 1));
    p.v = TRY(Unpacked(c, q, 2));
    return {};
  }
  if (c.Rank(q) != 3) return Err("the query must have rank 3 or 5, not ", c.builder.Spec(q).Text());
  const int64_t width = c.ShapeOfValue(q)[2];
  p.q = TRY(SplitHeads(c, TRY(WithBias(c, q, bias, 0)), heads));
  if (!c.Has(kKey)) return Err("has no keys");
  if (packed == 2) {
    ValueId kv = TRY(c.Tensor(kKey));
    if (c.ShapeOfValue(kv)[3] != 2 || c.ShapeOfValue(kv)[2] != heads) return Err("packed keys and values do not fit");
    p.k = TRY(Unpacked(c, kv, 0));
    p.v = TRY(Unpacked(c, kv, 1));
    return {};
  }
  p.k = TRY(KeysOrValues(c, kKey, heads, bias, width));
  p.v = TRY(KeysOrValues(c, kValue, heads, bias, 2 * width));
  return {};
}

// Puts the past keys and values, [B, H, P, D] each, before the new ones, and binds the results.
Status JoinPastPair(ImportContext& c, AttentionParts& p, size_t past_input) {
  if (c.Has(past_input) != c.Has(past_input + 1)) return Err("past keys and past values come together");
  if (c.Has(past_input)) {
    ValueId k = TRY(c.Tensor(past_input)), v = TRY(c.Tensor(past_input + 1));
    if (c.Rank(k) != 4 || c.Rank(v) != 4) return Err("past keys and values must have rank 4");
    p.positions.offset = c.ShapeOfValue(k)[2];
    p.k = TRY(c.Emit(Op::kConcat, {k, p.k}, AxisAttrs{2}));
    p.v = TRY(c.Emit(Op::kConcat, {v, p.v}, AxisAttrs{2}));
  }
  TRY(c.Bind(p.k, 1));
  return c.Bind(p.v, 2);
}

Status ImportMultiHeadAttention(ImportContext& c) {
  enum { kMask = 4, kScoreBias, kPastKey, kPastValue, kPastLength, kIndirection };
  TRY(Refuse(c, kPastLength, "past_sequence_length"));
  TRY(Refuse(c, kIndirection, "cache_indirection"));
  if (c.IsUsed(3)) return Err("output '", c.node().outputs[3], "' is used, but scores are not supported as an output");
  AttentionParts p;
  TRY(ReadMultiHead(c, p, TRY(Positive(c, "num_heads"))));
  p.scale = TRY(ScaleOf(c, c.ShapeOfValue(p.q)[3]));
  TRY(JoinPastPair(c, p, kPastKey));
  TRY(AddMask(c, p, kMask));
  TRY(AddBias(c, p, kScoreBias));
  if (TRY(c.Int("unidirectional", 0)) != 0) p.positions.right = 0;
  return BindMerged(c, p);
}

// Looks up the cosines or sines of rotary embeddings in a cache. `positions` are integers [B, S]; the result is
// [B, 1, S, D / 2], which broadcasts over heads.
Result<ValueId> AnglesAt(ImportContext& c, size_t cache_input, ValueId positions) {
  ValueId cache = TRY(c.Tensor(cache_input));
  if (c.Rank(cache) != 2) return Err("caches must be matrices, not ", c.builder.Spec(cache).Text());
  ValueId angles = TRY(c.Emit(Op::kGather, {cache, positions}, AxisAttrs{0}));
  const Shape s = c.ShapeOfValue(angles);
  return c.Reshape(angles, {s[0], 1, s[1], s[2]});
}

Result<Rotation> RotationAt(ImportContext& c, size_t cos_input, ValueId positions, const char* interleaved) {
  Rotation r;
  r.interleaved = TRY(c.Int(interleaved, 0)) != 0;
  r.cos = TRY(AnglesAt(c, cos_input, positions));
  r.sin = TRY(AnglesAt(c, cos_input + 1, positions));
  r.rotated = 2 * c.ShapeOfValue(r.cos)[3];
  if (c.ShapeOfValue(r.sin) != c.ShapeOfValue(r.cos)) return Err("caches of cosines and sines differ in shape");
  return r;
}

// Returns the positions first, first + 1, ..., as [B, S] or [1, S]. `first` holds integers, [B] or [1].
Result<ValueId> PositionsFrom(ImportContext& c, ValueId first, int64_t length) {
  ValueId start = TRY(c.Reshape(TRY(c.Cast(first, DType::Int(32))), {c.builder.Spec(first).NumElements(), 1}));
  return c.Apply(Op::kAdd, start, TRY(Counting(c, {1, length})));
}

Status ImportRotaryAtPositions(ImportContext& c) {
  enum { kInput, kPositions, kCos };
  TRY(RefuseAttr(c, "is_packed_batching"));
  if (TRY(c.Float("scale", 1)) != 1) return Err("scale must be 1");
  ValueId x = TRY(c.Tensor(kInput)), positions = TRY(c.Tensor(kPositions));
  if (!c.Type(positions).IsInt()) return Err("positions must be integers");
  const bool merged = c.Rank(x) == 3;
  if (!merged && c.Rank(x) != 4) return Err("the input must have rank 3 or 4, not ", c.builder.Spec(x).Text());
  const int64_t length = c.ShapeOfValue(x)[merged ? 1 : 2];
  if (c.Rank(positions) == 1 && c.ShapeOfValue(positions)[0] == 1) positions = TRY(PositionsFrom(c, positions, length));
  if (c.Rank(positions) != 2 || c.ShapeOfValue(positions)[1] != length)
    return Err("positions must be one number or ", length, " for each batch entry");
  const Rotation r = TRY(RotationAt(c, kCos, positions, "interleaved"));
  const int64_t wanted = TRY(c.Int("rotary_embedding_dim", 0));
  if (wanted != 0 && wanted != r.rotated) return Err("rotary_embedding_dim ", wanted, " does not fit the caches");
  if (merged) {
    const int64_t heads =
        wanted == 0 ? c.ShapeOfValue(x)[2] / std::max<int64_t>(r.rotated, 1) : TRY(Positive(c, "num_heads"));
    x = TRY(SplitHeads(c, x, heads));
  }
  if (c.ShapeOfValue(x)[3] < r.rotated) return Err("caches are wider than the heads of ", c.builder.Spec(x).Text());
  ValueId y = TRY(RotateHeads(c, x, r));
  return c.Bind(merged ? TRY(MergeHeads(c, y)) : y);
}

// Inputs of GroupQueryAttention.
struct Grouped {
  enum { kQuery, kKey, kValue, kPastKey, kPastValue, kLastKeys, kTotal, kCos, kSin, kPositionIds, kScoreBias, kSink };
};

Status ReadGrouped(ImportContext& c, AttentionParts& p) {
  const int64_t heads = TRY(Positive(c, "num_heads")), shared = TRY(Positive(c, "kv_num_heads"));
  ValueId q = TRY(c.Tensor(Grouped::kQuery)), k = 0, v = 0;
  if (c.Rank(q) != 3) return Err("the query must have rank 3, not ", c.builder.Spec(q).Text());
  if (c.Has(Grouped::kKey)) {
    k = TRY(c.Tensor(Grouped::kKey));
    v = TRY(c.Tensor(Grouped::kValue));
  } else {
    const int64_t all = c.ShapeOfValue(q)[2];
    if (all % (heads + 2 * shared) != 0) return Err("packed ", c.builder.Spec(q).Text(), " does not divide into heads");
    const int64_t width = all / (heads + 2 * shared);
    k = TRY(c.Cut(q, 2, heads * width, shared * width));
    v = TRY(c.Cut(q, 2, (heads + shared) * width, shared * width));
    q = TRY(c.Cut(q, 2, 0, heads * width));
  }
  p.q = TRY(SplitHeads(c, q, heads));
  p.k = TRY(SplitHeads(c, k, shared));
  p.v = TRY(SplitHeads(c, v, shared));
  return {};
}

// Returns a tensor [B, H, T, D] that holds, for batch entry b, the first ends[b] rows of the past and then the new
// rows.
Result<ValueId> Inserted(ImportContext& c, ValueId past, ValueId now, ValueId ends, int64_t total) {
  const Shape old = c.ShapeOfValue(past), fresh = c.ShapeOfValue(now);
  const int64_t batch = old[0];
  if (old.size() != 4 || old[1] != fresh[1] || old[3] != fresh[3] || old[2] > total)
    return Err("past ", c.builder.Spec(past).Text(), " does not fit ", c.builder.Spec(now).Text());
  ValueId row = TRY(Counting(c, {1, 1, total, 1}));
  ValueId place = TRY(c.Apply(Op::kSub, row, TRY(c.Reshape(ends, {batch, 1, 1, 1}))));  // index in the new rows
  ValueId is_past = TRY(c.ApplyNumber(Op::kLess, place, 0));
  place = TRY(c.ApplyToNumber(Op::kMax, 0, TRY(c.ApplyNumber(Op::kMin, place, static_cast<double>(fresh[2] - 1)))));
  const Shape all = {batch, fresh[1], total, fresh[3]};
  place = TRY(c.Emit(Op::kBroadcastTo, {place}, ReshapeAttrs{all}));
  ValueId moved = TRY(c.Emit(Op::kGatherElements, {now, place}, AxisAttrs{2}));
  PadAttrs longer{Shape(4, 0), {0, 0, total - old[2], 0}, Shape(4, 0), PadMode::kConstant, 0};
  if (old[2] < total) past = TRY(c.Emit(Op::kPad, {past}, longer));
  return c.Where(is_past, past, moved);
}

// Rotates queries and keys, joins past and new keys and values, and masks invalid keys. Batch entry b has lasts[b] + 1
// keys: its past, then the new keys.
Status PlaceGrouped(ImportContext& c, AttentionParts& p) {
  const Shape q = c.ShapeOfValue(p.q);
  ValueId lasts = TRY(c.Cast(TRY(c.Tensor(Grouped::kLastKeys)), DType::Int(32)));
  if (c.builder.Spec(lasts).NumElements() != q[0]) return Err("seqlens_k must have ", q[0], " elements");
  lasts = TRY(c.Reshape(lasts, {q[0]}));
  ValueId lengths = TRY(c.ApplyNumber(Op::kAdd, lasts, 1));
  const bool has_past = c.Has(Grouped::kPastKey);
  double total = static_cast<double>(q[2]);
  if (has_past) total = TRY(c.ConstantNumber(Grouped::kTotal, "total_sequence_length"));
  // If all keys are new ones, no batch entry has a past, and the rows after the end of a shorter entry are padding.
  const bool first_prompt = total == static_cast<double>(q[2]);
  ValueId ends = TRY(c.ApplyNumber(Op::kSub, lengths, static_cast<double>(q[2])));  // lengths of the pasts
  if (first_prompt) ends = TRY(c.ApplyNumber(Op::kMul, ends, 0));
  if (TRY(c.Int("do_rotary", 0)) != 0) {
    ValueId positions =
        c.Has(Grouped::kPositionIds) ? TRY(c.Tensor(Grouped::kPositionIds)) : TRY(PositionsFrom(c, ends, q[2]));
    if (c.ShapeOfValue(positions) != Shape{q[0], q[2]})
      return Err("position_ids must have shape ", ShapeText({q[0], q[2]}));
    const Rotation r = TRY(RotationAt(c, Grouped::kCos, positions, "rotary_interleaved"));
    if (r.rotated > q[3]) return Err("caches are wider than the heads");
    p.q = TRY(RotateHeads(c, p.q, r));
    p.k = TRY(RotateHeads(c, p.k, r));
  }
  if (has_past) {
    ValueId k = TRY(c.Tensor(Grouped::kPastKey)), v = TRY(c.Tensor(Grouped::kPastValue));
    const int64_t keys = std::max(c.Rank(k) == 4 ? c.ShapeOfValue(k)[2] : 0, static_cast<int64_t>(total));
    p.k = TRY(Inserted(c, k, p.k, ends, keys));
    p.v = TRY(Inserted(c, v, p.v, ends, keys));
    p.positions.offsets = TRY(c.Reshape(ends, {q[0], 1, 1, 1}));
  }
  p.keep = TRY(FirstKeys(c, lengths, c.ShapeOfValue(p.k)[2]));
  p.positions.right = 0;
  return {};
}

Status ImportGroupQueryAttention(ImportContext& c) {
  TRY(Refuse(c, Grouped::kSink, "head_sink"));
  for (const char* name : {"smooth_softmax", "qk_output"}) TRY(RefuseAttr(c, name));
  for (const char* name : {"k_quant_type", "v_quant_type"}) {
    if (TRY(c.String(name, "NONE")) != "NONE") return Err("attribute ", name, " is not supported");
  }
  if (c.Has(Grouped::kPastKey) != c.Has(Grouped::kPastValue)) return Err("past keys and past values come together");
  AttentionParts p;
  TRY(ReadGrouped(c, p));
  p.scale = TRY(ScaleOf(c, c.ShapeOfValue(p.q)[3]));
  p.softcap = TRY(c.Float("softcap", 0));
  TRY(PlaceGrouped(c, p));
  TRY(AddBias(c, p, Grouped::kScoreBias));
  const int64_t window = TRY(c.Int("local_window_size", -1));
  if (window == 0 || window < -1) return Err("local_window_size must be positive or -1, not ", window);
  if (window > 0) p.positions.left = window - 1;  // the window includes the query's own key
  TRY(c.Bind(p.k, 1));
  TRY(c.Bind(p.v, 2));
  return BindMerged(c, p);
}

}  // namespace

const std::vector<OperatorRow>& MicrosoftAttentionOperators() {
  static const std::vector<OperatorRow> rows = {
      {"Attention", 1, 28, ImportProjectedAttention},
      {"MultiHeadAttention", 1, 28, ImportMultiHeadAttention},
      {"GroupQueryAttention", 1, 28, ImportGroupQueryAttention},
      {"RotaryEmbedding", 1, 28, ImportRotaryAtPositions},
  };
  return rows;
}

}  // namespace autotune::onnx_import
