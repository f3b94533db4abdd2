// Sample: the tile sizes that sample_tile may choose. The step draws from them, and mutators replace one by another.
// Deterministic given the generator's state. Thread-safe except for the generator.
#pragma once
#include <cstdint>
#include <vector>

#include "support/result.h"
#include "support/rng.h"

namespace autotune {

// Returns the most iterations that a tile may cover: a quarter more than the extent. A loop that feeds a reduction gets
// no such padding, since the padding would be in the innermost loop.
inline int64_t CoverLimit(int64_t extent, bool reduction) { return reduction ? extent : extent + extent / 4; }
// Returns tile sizes for the innermost level of a loop of `extent` iterations: multiples of `multiple_of` up to
// `max_inner` whose repetitions cover at most `limit` iterations. If there are none, returns the sizes that waste
// least.
std::vector<int64_t> InnerTiles(int64_t extent, int64_t max_inner, int64_t multiple_of, int64_t limit);
// Returns tile sizes for a level that covers `count` tiles of the level below, each of `size` iterations. Of the sizes
// that need the same number of repetitions, it returns the smallest. A size times its repetitions covers at most
// `limit` iterations, or count * size iterations if these exceed the limit.
std::vector<int64_t> MiddleTiles(int64_t count, int64_t size, int64_t limit);

// Draws a tile of n factors, level by level from the innermost. Returns the factors outermost first.
Result<std::vector<int64_t>> DrawTile(int64_t extent, int64_t n, int64_t max_inner, int64_t multiple_of, int64_t limit,
                                      Rng& rng);
// Checks that a tile meets the conditions of sample_tile (schedule/step.h). Does not limit how far the tile exceeds the
// extent.
Status CheckTile(const std::vector<int64_t>& tile, int64_t extent, int64_t n, int64_t max_inner, int64_t multiple_of);

}  // namespace autotune
