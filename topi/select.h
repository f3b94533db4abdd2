// Operators that sort, scatter and gather by computed places, and determinants. Thread-safe.
#pragma once
#include <optional>
#include <string>

#include "te/tensor.h"

namespace autotune::topi {

using te::Shape;
using te::Tensor;

// Annotations by which sketch rules recognise two kinds of blocks: those that change elements one after the other
// (Scatter, Cumulate), and programs (TopK, SelectBoxes, Determinant).
inline constexpr const char* kOrderedUpdate = "ordered_update";
inline constexpr const char* kProgram = "program";

// Returns the i64 positions, in the last dimension, of the k largest (smallest) elements, the best first. Of equal
// elements, the first one is better. Rows are independent. A row of n elements takes at most about n log k steps, and
// little more than n if most elements are worse than earlier ones. If a row holds a NaN, its positions are unspecified,
// but within the row. 1 <= k <= the row's length (CHECK).
Tensor TopK(const std::string& name, const Tensor& x, int64_t k, bool largest);

// Returns `data` with updates: the element at (i, ..., indices[i, u, ...], ...), with the index at position `axis`,
// becomes updates[i, u, ...], or the combination of both. Updates along the axis happen one after the other. Ranks are
// equal, and indices broadcast to the shape of the updates. Negative indices count from the end. No index writes
// outside of data. In all other dimensions, updates are no larger than data (CHECK). Blocks <name>_copy, <name>_update.
Tensor Scatter(const std::string& name, const Tensor& data, const Tensor& updates, const Tensor& indices, int axis,
               std::optional<te::Combiner> combiner);

// Cumulative sums (products) along an axis: element i combines the elements up to i or, if `reverse`, from i on. If
// `exclusive`, element i itself is left out, and the first result is the combiner's identity. Blocks <name>_copy,
// <name>_update.
Tensor Cumulate(const std::string& name, const Tensor& x, int axis, te::Combiner combiner, bool exclusive,
                bool reverse);

// Returns [B, P, C]: the sum over t of weights[b, p, t] * x[b, indices[b, p, t], c]. x is [B, R, C], the other inputs
// are [B, P, T]. Indices are clamped to [0, R). A single channel has no axis in the nest.
Tensor GatherSum(const std::string& name, const Tensor& x, const Tensor& weights, const Tensor& indices);

// Non-maximum suppression. For each batch and class, goes through the boxes by descending score; `order` [B, C, N] has
// the numbers of the boxes, clamped to [0, N), in this order. A box is taken if its score is above `least_score`, if no
// earlier taken box overlaps it by more than `overlap` (intersection over union), and if fewer than `most` boxes were
// taken. Returns i64 [rows, 3]: (batch, class, box) of each taken box, ordered by batch and class. Only the first
// `rows` boxes are kept; unused rows are -1. boxes [B, N, 4] are two corners (in either order) or, if `centers`, the
// center and the size; scores is [B, C, N].
struct Suppression {
  int64_t most = 1, rows = 1;
  double overlap = 0;
  std::optional<double> least_score;  // null: any
  bool centers = false;
};
Tensor SelectBoxes(const std::string& name, const Tensor& boxes, const Tensor& scores, const Tensor& order,
                   const Suppression& s);

// Determinants of the matrices in the last two dimensions, by elimination with pivots.
Tensor Determinant(const std::string& name, const Tensor& x);

}  // namespace autotune::topi
