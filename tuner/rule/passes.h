// Passes over rows: blocks that follow one another over the elements of a row, such as the maximum, the exponentials,
// the sum and the quotients of a softmax. Thread-safe.
#pragma once
#include <vector>

#include "tuner/rule/builder.h"

namespace autotune {

// Returns the number of outermost spatial loops that have the same extents in all blocks: the loops over rows.
size_t CommonLoops(const std::vector<BlockView>& blocks);

// Returns true if no placed block computes elements repeatedly. A block does so if its first `depth` loops have the
// extents of the rows, but are not rows. `before` holds the same blocks before they were placed.
bool IsOnce(const std::vector<BlockView>& placed, const std::vector<BlockView>& before, size_t depth);

// Makes blocks[i] a pass over rows: vectorizes its columns, and initialises its sums. `loops` are the current loops of
// its iterators. The first `depth` of them run over rows; 0: there are no rows. `blocks` are in the order of
// computation and include all readers of blocks[i]. Returns the loop over vectors, or an empty name if there is none.
// Does not place the block.
Result<Name> MakePass(SketchBuilder& s, const std::vector<BlockView>& blocks, size_t i, const std::vector<Name>& loops,
                      size_t depth);

// Places all `blocks` in one parallel loop over the rows, which are their first `depth` loops. If `depth` is 0, each
// block keeps its own loops, one after the other.
Status PlacePasses(SketchBuilder& s, const std::vector<BlockView>& blocks, size_t depth);

}  // namespace autotune
