// Long sums in parts on GPUs (split-K): different blocks of threads compute the parts, and another kernel adds them up.
// A product with few results and a long sum then has work for every compute unit. Thread-safe.
#pragma once
#include <functional>

#include "tuner/rule/builder.h"

namespace autotune {

// Number of ways to cut a sum.
inline constexpr int kWaysToCut = 2;

// Calls `place` for a product, which it must place. In way 0 the product is `block`. In the other ways it is a block
// that computes parts of the sum, and InParts also places the block that adds up the parts: way 1 has as many parts as
// give every compute unit work, way 2 a quarter of them. `together`: number of neighbouring steps that stay in one part
// if it divides the longest loop of the sum. Errors: those of `place`; the results alone are enough work; the sum is
// too short.
Status InParts(SketchBuilder& s, const BlockView& block, int way, int64_t together,
               const std::function<Status(const BlockView&)>& place);

}  // namespace autotune
