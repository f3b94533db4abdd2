// Builds scaled dot-product attention from operators of the graph language, for ONNX's Attention and for the attention
// operators of com.microsoft. Internal to frontend/onnx; not thread-safe.
#pragma once
#include <optional>

#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {

// Restricts the keys that a query sees, by the positions of both. The position of a key is its index. The position of a
// query is its index plus an offset, the number of keys before the first query. The offset is known at import, or is
// one number for each batch entry.
struct Positions {
  int64_t offset = 0;
  std::optional<ValueId> offsets;      // i32 [B, 1, 1, 1]; replaces `offset`
  std::optional<int64_t> left, right;  // number of visible keys before and after the query's position; absent: all
};

struct AttentionParts {
  ValueId q = 0;                // [B, H, S, D]
  ValueId k = 0, v = 0;         // [B, H / group, T, D], [B, H / group, T, E]; consecutive query heads share a head
  double scale = 1;             // factor of the products of q and k
  double softcap = 0;           // if c > 0, a product p becomes c * tanh(p / c)
  std::optional<ValueId> bias;  // floats that are added to the scores; broadcasts to [B, H, S, T]
  std::optional<ValueId> keep;  // bools that broadcast to [B, H, S, T]; where false, the score is minus infinity
  Positions positions;
  std::optional<DType> softmax_type;  // type in which the softmax is computed; absent: that of q
};

struct AttentionValues {
  ValueId y = 0;  // [B, H, S, E]
  // The scores [B, H, S, T] after each stage, in the order of computation.
  ValueId scaled = 0, capped = 0, masked = 0, probabilities = 0;
};

// Computes softmax(mask(cap(scale * q * k'))) * v. If a query sees no key, its probabilities are 0.
Result<AttentionValues> Attend(ImportContext& context, const AttentionParts& parts);

// Transpose [B, S, heads * D] to [B, heads, S, D], and back.
Result<ValueId> SplitHeads(ImportContext& context, ValueId x, int64_t heads);
Result<ValueId> MergeHeads(ImportContext& context, ValueId x);

// Returns the result of `op` on a and b. If one operand is absent, returns the other; if both are absent, nothing.
Result<std::optional<ValueId>> Combine(ImportContext& context, Op op, std::optional<ValueId> a,
                                       std::optional<ValueId> b);

// Returns a constant of the i32 numbers first, first + 1, .... At most one dimension of `shape` may exceed 1.
Result<ValueId> Counting(ImportContext& context, Shape shape, int64_t first = 0);

// Returns bools [B, 1, 1, keys] that are true for the first limits[b] keys of batch entry b. `limits` are integers [B].
Result<ValueId> FirstKeys(ImportContext& context, ValueId limits, int64_t keys);

}  // namespace autotune::onnx_import
