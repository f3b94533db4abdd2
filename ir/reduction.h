// Checks that a reduction adds each of its terms only once. Thread-safe.
#pragma once
#include <vector>

#include "ir/stmt.h"
#include "support/result.h"

namespace autotune {

// Checks the iterations of the loops that feed only reduction iterators of the block. No two iterations may give all
// reduction iterators the same values where the predicate holds. If the block has an `init`, the first iteration must
// give them 0. Steps and passes rely on this: they initialise where these loops begin, and replace the loops by loops
// over the iterators.
//
// `around` are the loops around the block. If one of them feeds both reduction and spatial iterators, nothing is
// checked. If the form of the bindings (sums of loops times constants) does not prove the rule, all iterations are
// tried. It is then an error if there are more than 2^20 iterations, or if extents are not constant. `budget` limits
// the cost of trying, in evaluated nodes of expressions. The cost is subtracted from it; a cost beyond the budget is an
// error.
Status CheckReduction(const Block& block, const std::vector<const For*>& around, int64_t& budget);

}  // namespace autotune
