// Reductions: that what a block adds up is added once. Thread-safe.
#pragma once
#include <vector>

#include "ir/stmt.h"
#include "support/result.h"

namespace autotune {

// That no two iterations of the loops that feed only reduction iterators of the block give all of these the same
// values (where its predicate holds), and that the first iteration gives them 0 if there is an `init`. Steps and passes
// rely on it: they initialise where these loops begin, and make loops over iterators instead of those that fed them.
// `around` are the loops around the block. Where a loop feeds spatial iterators, too, nothing is checked.
// Where sums of loops times constants do not show it, the iterations are tried out, at most 2^20 of them: others, and
// extents that are not constant, are an error, too. `budget`, in nodes of expressions evaluated, is what trying may
// cost; what it costs is taken off, and what would cost more than is left is an error.
Status CheckReduction(const Block& block, const std::vector<const For*>& around, int64_t& budget);

}  // namespace autotune
