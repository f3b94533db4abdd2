// Checks that a reduction adds each of its terms only once. Thread-safe.
#pragma once
#include <vector>

#include "ir/stmt.h"
#include "support/result.h"

namespace autotune {

// Checks that no two iterations of the loops which feed only reduction iterators of the block give all these iterators
// the same values (where the predicate holds), and that the first iteration gives them 0 if there is an `init`. Steps
// and passes rely on it: they initialise where these loops begin, and replace them by loops over the iterators.
// `around` are the loops around the block. Checks nothing if a loop feeds spatial iterators, too. If the bindings are
// not sums of loops times constants that show it, tries the iterations out. More than 2^20 iterations, or extents that
// are not constant, are then an error. `budget` limits the cost of trying, in evaluated nodes of expressions. The cost
// is subtracted from it, and a higher cost is an error.
Status CheckReduction(const Block& block, const std::vector<const For*>& around, int64_t& budget);

}  // namespace autotune
