// Reductions over any axes, and the index of an extreme element. Thread-safe.
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
//    ... of a row, then the lanes are combined. Blocks <name>_lanes, <name>_fold (unless there are few lanes),
//    <name>. Further reduced dimensions in front belong to the first block.
//  - The last dimension is kept and has fewer than 16 elements, and the dimension before it is reduced: combined in
//    lanes, too. The number of lanes is a multiple of the kept elements, so each lane belongs to one result. Blocks
//    <name>_lanes, <name>.
//  - The last dimension is reduced, other reduced dimensions are in front, and the rows are short, or more than 4 and
//    far apart: the dimensions in front are combined first, along contiguous memory. Blocks <name>_outer, then those
//    of the remaining reduction.
//  - Everything else, and short reductions: one block <name>.
// If x is computed over fused axes (a product's (b, m, n)) and its last dimension is reduced, the nest's axes are the
// other axes of x, so that a softmax has the loops of the product before it.
//
// `whole`, 8 or 16: the number of lanes is a multiple of it. 16 lanes are whole vectors on every target. A vector that
// is cut off in each step costs 5 to 20 times as much as a tail of the row. Softmax uses 8: its schedule cuts no
// vectors, and 8 leaves a tail less often.
Tensor ReduceAxes(const std::string& name, const Tensor& x, const std::vector<int>& axes, te::Combiner combiner,
                  int64_t whole = 16);

// Returns the product of two elements as a term of a sum, in the type of the sum (SumType in ir/dot.h).
Expr Term(const Expr& a, const Expr& b);

// Returns one element of a row. `kept` and `outer` are the subscripts of the row, and `at` is the position in the row.
using RowFn = std::function<Expr(const std::vector<Expr>& kept, const std::vector<Expr>& outer, const Expr& at)>;
// Returns, for each point of `kept`, the sum of fn(kept, outer, at) over all points of `outer` and all at < n, n >= 16.
// Sums in lanes: blocks <name>_lanes, <name>_fold, <name>. The nest's axes are `kept`; `shape` is the logical shape.
Tensor SumRows(const std::string& name, const std::vector<te::Axis>& kept, const std::vector<te::Axis>& outer,
               int64_t n, const std::vector<Tensor>& inputs, const RowFn& fn, const Shape& shape);
inline constexpr int64_t kShortestRow = 16;  // fewest elements of a row for which lanes are used

// Returns the i64 index of the largest (smallest) element along an axis, which stays with extent 1. Of equal elements
// it is the first or the last. Blocks <name>_best, <name>. If the data holds a NaN, the index is unspecified, but
// within the axis.
Tensor ArgReduce(const std::string& name, const Tensor& x, int axis, bool largest, bool last);

}  // namespace autotune::topi
