// Long sums in parts on GPUs, so that a product with few results and a long sum has work for every compute unit.
// Different blocks of threads compute the parts, and another kernel adds them up (split-K); or different threads of one
// block compute them, and the block adds them up (sliced K). Thread-safe.
#pragma once
#include <functional>

#include "tuner/rule/builder.h"

namespace autotune {

// Number of ways in which InParts cuts a sum: into many parts, half as many, or a quarter as many.
inline constexpr int kWaysToCut = 3;

// Calls `place` for a product, which the callback must place. In way 0 the product is `block`. In the next kWaysToCut
// ways InParts cuts the longest loop of the sum into parts. The product is then a block that computes the partial sums.
// Another rule places the block that adds them up. Way 1 has as many parts as give every compute unit work, each
// further way half as many. `together`: number of neighbouring steps that stay in one part, if it divides the longest
// loop. Returns an error if `place` does, if the results alone are enough work, or if the sum is too short.
Status InParts(SketchBuilder& s, const BlockView& block, int way, int64_t together,
               const std::function<Status(const BlockView&)>& place);

// Number of ways in which InSlices cuts a sum: into 2 or 4 slices.
inline constexpr int kWaysToSlice = 2;

// Calls `place` for a product that computes the sum in `slices`, and whose first iterator is the slice, and with the
// name of the block that adds them up. The callback places both blocks. Different threads of a block compute the slices
// (sliced K). Returns an error if `place` does, if whole tiles give every compute unit work, or if the sum is too
// short.
Status InSlices(SketchBuilder& s, const BlockView& block, int64_t slices,
                const std::function<Status(const BlockView&, const Name&)>& place);

}  // namespace autotune
