// Passes over rows: blocks that follow one another over the elements of a row, such as the maximum, the exponentials,
// the sum and the quotients of a softmax. Thread-safe.
#pragma once
#include <vector>

#include "tuner/rule/builder.h"

namespace autotune {

// The number of outer loops that all blocks have in common and that their reductions leave alone: those over rows.
size_t CommonLoops(const std::vector<BlockView>& blocks);

// Returns true if each row computes its own part of each block once its passes are placed; extents may agree by chance.
// `before` holds the blocks as they were.
bool IsOnce(const std::vector<BlockView>& placed, const std::vector<BlockView>& before, size_t depth);

// Makes a pass of blocks[i], in vectors of its columns. `loops` are the loops of its iterators at this time. The first
// `depth` of them run over rows; 0: there are no rows. `blocks` are in the order of computation, and blocks that are
// missing do not read blocks[i]. Returns the loop over vectors, if it stays a loop. Does not place the block.
Result<Name> MakePass(SketchBuilder& s, const std::vector<BlockView>& blocks, size_t i, const std::vector<Name>& loops,
                      size_t depth);

// Places all `blocks` in one parallel loop over the rows, their first `depth` loops; one after the other if that is 0.
Status PlacePasses(SketchBuilder& s, const std::vector<BlockView>& blocks, size_t depth);

}  // namespace autotune
