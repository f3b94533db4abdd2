#include <algorithm>

#include "tuner/rule/rule.h"

namespace autotune {

// Places a block as it is. Lowering binds its loops to threads, one for each element of the result
// (lower/bind_rest.cc).
Status UnboundRule(SketchBuilder& s, const BlockView& block, int) {
  const int64_t elements = Iterations(block.spatial), steps = Iterations(block.reduce);
  const double bytes = static_cast<double>(block.element_bytes * elements);
  const double operands = std::max(1.0, static_cast<double>(block.reads.size()));
  s.Place(block.name);
  s.AddStage({.kind = StageModel::kGpuUnbound,
              .m = elements,
              .k = steps,
              .element_bytes = block.element_bytes,
              .flops = block.flops,
              .read_bytes = bytes * operands * static_cast<double>(steps),
              .write_bytes = bytes});
  return {};
}

}  // namespace autotune
