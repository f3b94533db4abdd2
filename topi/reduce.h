// Reductions over any axes, and the place of an extreme element. Thread-safe.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "te/tensor.h"

namespace autotune::topi {

using te::Shape;
using te::Tensor;

// Combines x over the dimensions `axes` (each once, CHECK), which stay with extent 1. The nest's axes are the other
// dimensions.
//
// The form depends on how the elements lie in memory. Neighbouring dimensions that are all reduced, or all kept, count
// as one.
//  - The last dimension is reduced and has 16 elements or more: lane l combines the elements l, l + lanes, l + 2 lanes,
//    ... of a row, then the lanes are combined. Blocks <name>_lanes, <name>_fold (unless there is only one vector),
//    <name>. Further reduced dimensions in front belong to the first block.
//  - The last dimension is kept and has fewer than 16 elements, and the one before it is reduced: the same. The number
//    of lanes is a multiple of the kept elements, so each lane belongs to one result. Blocks <name>_lanes, <name>.
//  - Short rows that are reduced, or rows far apart, with further reduced dimensions in front: the dimensions in front
//    are combined first, along contiguous memory. Blocks <name>_outer, then those of the rest.
//  - Everything else, and short reductions: one block <name>.
// If x is computed over fused axes (a product's (b, m, n)) and its last dimension is reduced, the nest's axes are the
// other axes of x, so that a softmax has the loops of the product before it.
//
// `whole`, 8 or 16: the number of lanes is a multiple of it. 16 lanes are whole vectors on every target. A vector that
// is cut off in each step costs 5 to 20 times as much as a tail of the row. Softmax uses 8: its schedule cuts no
// vectors, and 8 leaves a tail less often.
Tensor ReduceAxes(const std::string& name, const Tensor& x, const std::vector<int>& axes, te::Combiner combiner,
                  int64_t whole = 16);

// One element of a row: `kept` and `outer` are the subscripts of the row, `at` is the place in it, which is below the
// row's length.
using RowFn = std::function<Expr(const std::vector<Expr>& kept, const std::vector<Expr>& outer, const Expr& at)>;
// For each point of `kept`: the sum of rows of n >= 16 elements fn(kept, outer, at), one for each point of `outer`, in
// lanes: blocks <name>_lanes, <name>_fold, <name>. The nest's axes are `kept`; `shape` is the logical shape.
Tensor SumRows(const std::string& name, const std::vector<te::Axis>& kept, const std::vector<te::Axis>& outer,
               int64_t n, const std::vector<Tensor>& inputs, const RowFn& fn, const Shape& shape);
inline constexpr int64_t kShortestRow = 16;  // elements of a row that is worth lanes

// The i64 index of the largest (smallest) element along an axis, which stays with extent 1; of equal ones the first or
// the last. Blocks <name>_best, <name>. If the data holds a NaN, the index is unspecified, but within the axis.
Tensor ArgReduce(const std::string& name, const Tensor& x, int axis, bool largest, bool last);

}  // namespace autotune::topi
