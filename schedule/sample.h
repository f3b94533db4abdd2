// Sample: which decisions a sampling step may take in a given state, for the steps themselves and for mutators.
// Deterministic given the generator's state. Thread-safe except for the generator.
#pragma once
#include <cstdint>
#include <vector>

#include "support/result.h"
#include "support/rng.h"

namespace autotune {

// How many iterations a tile may cover: a quarter more than the extent, or, for a loop that feeds a reduction (where
// padding would stand in the innermost loop), no more than it.
inline int64_t CoverLimit(int64_t extent, bool reduction) { return reduction ? extent : extent + extent / 4; }
// Tile sizes for the innermost level of a loop of `extent` iterations: multiples of `multiple_of` up to `max_inner`
// which, repeated, cover at most `limit`; the least wasteful ones where none does.
std::vector<int64_t> InnerTiles(int64_t extent, int64_t max_inner, int64_t multiple_of, int64_t limit);
// Tile sizes for a level that covers `count` tiles of the level below: only sizes that differ in how often they repeat,
// each the smallest such, while `size` * (their cover) stays within `limit`.
std::vector<int64_t> MiddleTiles(int64_t count, int64_t size, int64_t limit);

// A tile of n factors, outermost first, drawn level by level from the innermost.
Result<std::vector<int64_t>> DrawTile(int64_t extent, int64_t n, int64_t max_inner, int64_t multiple_of, int64_t limit,
                                      Rng& rng);
// An error if a tile breaks the promises of sample_tile (schedule/step.h), waste aside.
Status CheckTile(const std::vector<int64_t>& tile, int64_t extent, int64_t n, int64_t max_inner, int64_t multiple_of);

}  // namespace autotune
