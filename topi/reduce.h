// Reductions over any axes, and the place of an extreme element. Thread-safe.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "te/tensor.h"

namespace autotune::topi {

using te::Shape;
using te::Tensor;

// The combination over the dimensions `axes` (each once, CHECK), which stay with extent 1. The nest's axes are the
// other dimensions.
//
// The form follows from how the elements lie in memory. Neighbouring dimensions that are all reduced, or all kept,
// count as one.
//  - Reduced at the end, a row of them: lanes. Element k * lanes + l of a row is combined into lane l, so that lanes
//  are
//    vectors; the lanes are combined last. Blocks <name>_lanes, <name>_fold (unless there is but one vector), <name>.
//    Further reduced dimensions in front belong to the first block.
//  - Kept at the end, fewer than a vector, behind reduced ones: lanes, too, a multiple of the kept elements. Blocks
//    <name>_lanes, <name>.
//  - Short rows that are reduced, or rows far apart, with further reduced dimensions in front: the dimensions in front
//    first, along whole stretches of memory. Blocks <name>_outer, then those of the rest.
//  - All else, and what is short: one block <name>.
//
// There are a multiple of `whole` lanes, 8 or 16. 16 are whole vectors of any target; vectors that are cut off in each
// step made reductions 5 to 20 times slower than a tail of the row does. The tuner's rule for rows that are read in
// several passes cuts no vectors, so that 8 will do there, and a tail cost a fifth (softmax of 1000).
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
// the last. Blocks <name>_best, <name>. NaNs never win; where nothing wins, the index is the last (first) one.
Tensor ArgReduce(const std::string& name, const Tensor& x, int axis, bool largest, bool last);

}  // namespace autotune::topi
