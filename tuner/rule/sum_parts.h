// Long sums in parts on GPUs (split-K): different blocks of threads compute the parts, and another kernel adds them up.
// A product with few results and a long sum then has work for every compute unit. Thread-safe.
#pragma once
#include <functional>

#include "tuner/rule/builder.h"

namespace autotune {

// Number of ways in which InParts cuts a sum: into many parts, or into a quarter as many.
inline constexpr int kWaysToCut = 2;

// Calls `place` for a product, which the callback must place. In way 0 the product is `block`. In ways 1 and 2 InParts
// cuts the longest loop of the sum into parts. The product is then a block that computes the partial sums. Another rule
// places the block that adds them up. Way 1 has as many parts as give every compute unit work, way 2 a quarter of
// them. `together`: number of neighbouring steps that stay in one part, if it divides the longest loop. Returns an
// error if `place` does, if the results alone are enough work, or if the sum is too short.
Status InParts(SketchBuilder& s, const BlockView& block, int way, int64_t together,
               const std::function<Status(const BlockView&)>& place);

}  // namespace autotune
