// Scaled dot-product attention as operators of the graph language: what ONNX's Attention and those of com.microsoft
// share. Internal to frontend/onnx; not thread-safe.
#pragma once
#include <optional>

#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {

// The keys that a query may see by their positions. A query's position is its index plus an offset: the number of keys
// before the first query, which is known at import or depends on the image.
struct Positions {
  int64_t offset = 0;
  std::optional<ValueId> offsets;      // i32 [B, 1, 1, 1]; replaces `offset`
  std::optional<int64_t> left, right;  // how far behind and ahead of its own position; absent: any distance
};

struct AttentionParts {
  ValueId q = 0;                // [B, H, S, D]
  ValueId k = 0, v = 0;         // [B, H / group, T, D], [B, H / group, T, E]; consecutive query heads share a head
  double scale = 1;             // of the products of q and k
  double softcap = 0;           // c: a product p becomes c * tanh(p / c); 0: it stays
  std::optional<ValueId> bias;  // floats, added then; broadcasts to [B, H, S, T]
  std::optional<ValueId> keep;  // bools, likewise: elsewhere the sum is minus infinity
  Positions positions;
  std::optional<DType> softmax_type;  // which the softmax is computed in; absent: that of q
};

struct AttentionValues {
  ValueId y = 0;  // [B, H, S, E]
  // [B, H, S, T], in the order in which they are computed.
  ValueId scaled = 0, capped = 0, masked = 0, probabilities = 0;
};

// softmax(mask(cap(scale * q * k'))) * v. Where a query sees no key, its probabilities are 0.
Result<AttentionValues> Attend(ImportContext& context, const AttentionParts& parts);

// [B, S, heads * D] as [B, heads, S, D], and back.
Result<ValueId> SplitHeads(ImportContext& context, ValueId x, int64_t heads);
Result<ValueId> MergeHeads(ImportContext& context, ValueId x);

// Both operands if any, joined by `op`.
Result<std::optional<ValueId>> Combine(ImportContext& context, Op op, std::optional<ValueId> a,
                                       std::optional<ValueId> b);

// i32 numbers first, first + 1, ... as a constant of the shape, of which one dimension may exceed 1.
Result<ValueId> Counting(ImportContext& context, Shape shape, int64_t first = 0);

// The bools `index < limits` for the keys of [B, 1, 1, keys]: limits are integers, [B].
Result<ValueId> FirstKeys(ImportContext& context, ValueId limits, int64_t keys);

}  // namespace autotune::onnx_import
