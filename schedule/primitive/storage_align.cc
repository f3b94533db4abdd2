// storage_align: sets the distance between the rows of an intermediate buffer.
#include <algorithm>

#include "schedule/state.h"

namespace autotune::schedule {

// Legal for every dimension except the last of an intermediate buffer in memory. No step or pass relies on the distance
// of rows, but vectors rely on contiguous elements within a row.
Status ApplyStep(State& state, StorageAlign& step) {
  const int64_t factor = TRY(state.Value(step.factor)), offset = TRY(state.Value(step.offset));
  const Buffer* found = FindBuffer(state.func, step.buffer);
  if (!found) return Err("there is no buffer '", step.buffer, "'");
  if (!IsAlloc(state.func, step.buffer)) {
    return Err("buffer '", step.buffer, "' is a parameter, whose layout its caller fixes; cache it first");
  }
  const Buffer buffer = *found;
  const int64_t rank = static_cast<int64_t>(buffer->shape.size());
  if (buffer->scope == Scope::kRegister) return Err("buffer '", step.buffer, "' lies in registers, which have no rows");
  if (!buffer->strides.empty()) return Err("buffer '", step.buffer, "' has strides of its own");
  if (rank < 2)
    return Err("buffer '", step.buffer, "' has ", rank, " dimension(s), so there are no rows to move apart");
  if (step.axis < 0 || step.axis >= rank - 1) {
    return Err("axis must be 0 to ", rank - 2, " for buffer '", step.buffer, "', not ", step.axis,
               ": the last dimension stays compact");
  }
  if (factor < 1 || factor > DimAlign::kMaxFactor) {
    return Err("the factor must be 1 to ", DimAlign::kMaxFactor, " elements, not ", factor);
  }
  if (offset < 0 || offset >= factor) return Err("the offset must be 0 to ", factor - 1, " elements, not ", offset);
  std::vector<DimAlign> aligned = buffer->dim_align;
  std::erase_if(aligned, [&](const DimAlign& a) { return a.dim == step.axis; });
  if (factor > 1) aligned.push_back({step.axis, factor, offset});
  std::sort(aligned.begin(), aligned.end(), [](const DimAlign& a, const DimAlign& b) { return a.dim < b.dim; });
  RedeclareAlloc(state.func, WithDimAlign(buffer, std::move(aligned)));
  return {};
}

}  // namespace autotune::schedule
