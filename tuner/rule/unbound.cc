#include <algorithm>
#include <cmath>

#include "tuner/rule/rule.h"

namespace autotune {

StageModel ElementsModel(const BlockView& block, const Target& target) {
  StageModel model{.kind = StageModel::kGpuUnbound,
                   .block = block.name,
                   .m = Iterations(block.spatial),
                   .k = Iterations(block.reduce),
                   .element_bytes = block.element_bytes};
  model.operands = 0;
  if (block.spatial.empty()) return model;
  constexpr double kSectorBytes = 32;
  const double warp = GpuMachineOf(target).warp;
  double bytes = 0;
  ForEachOperand(block, [&](const Load& load) {
    const LinearForm index = FlatIndex(block, load.buffer, load.indices);
    const double own = load.buffer->dtype.Bytes();
    const double step = static_cast<double>(std::abs(index.Coefficient(block.spatial.back().iter)));
    bytes += step == 0 ? own / warp : std::min(kSectorBytes, own * step);
    ++model.operands;
  });
  model.row_bytes = static_cast<int64_t>(std::ceil(bytes));
  return model;
}

// Places a block as it is. Lowering binds its loops to threads, one for each element of the result
// (lower/bind_rest.cc).
Status UnboundRule(SketchBuilder& s, const BlockView& block, int) {
  s.Place(block.name);
  s.AddStage(s.WithWork(ElementsModel(block, s.target())));
  return {};
}

}  // namespace autotune
