// Reductions over any axes, and the place of an extreme element. Thread-safe.
#pragma once
#include <string>
#include <vector>

#include "te/tensor.h"

namespace autotune::topi {

using te::Shape;
using te::Tensor;

// The combination over the dimensions `axes` (each once, CHECK), which stay with extent 1. The nest's axes are the
// other dimensions. Rows, where all trailing dimensions go, are combined lane by lane first, so that schedules find
// vectors: blocks <name>_lanes, <name>_fold (unless there is but one vector), <name>; short ones at once: <name>.
// There are a multiple of `whole` lanes, 8 or 16. 16 are whole vectors of any target; vectors that are cut off in each
// step made reductions 5 to 20 times slower than a tail of the row does. The tuner's rule for rows that are read in
// several passes cuts no vectors, so that 8 will do there, and a tail cost a fifth (softmax of 1000).
Tensor ReduceAxes(const std::string& name, const Tensor& x, const std::vector<int>& axes, te::Combiner combiner,
                  int64_t whole = 16);

// The i64 index of the largest (smallest) element along an axis, which stays with extent 1; of equal ones the first or
// the last. Blocks <name>_best, <name>. NaNs never win; where nothing wins, the index is the last (first) one.
Tensor ArgReduce(const std::string& name, const Tensor& x, int axis, bool largest, bool last);

}  // namespace autotune::topi
