// The annotations of loops and blocks that lowering and cost models read. Constants only.
#pragma once

namespace autotune {

// On a serial loop (value 1). Lowering copies the first and last iterations, in which a guard inside may fail, out of
// the loop. The remaining loop then needs no guards, and the guards of the copies are decided at compile time.
inline constexpr char kPeel[] = "peel";

// On a serial loop (value 1). The last pass of an iteration, which waits for memory, moves into a loop of the next
// iteration that computes, if the result stays the same (lower/overlap_rows.cc).
inline constexpr char kOverlap[] = "overlap";

// On a serial loop (value: the number of iterations under way). Its copies to shared memory run ahead by that number
// minus one (lower/pipeline_loops.cc).
inline constexpr char kPipeline[] = "pipeline";

// On a loop of two iterations (value 1). The loop and the two loops inside it are a product of matrices that a warp
// computes on tensor cores (ir/mma.h, lower/tensor_cores.cc).
inline constexpr char kMma[] = "mma";

// On the outermost loop of a product of tiles (value 1): the code generator emits instructions on two-dimensional
// registers, if the target has them (ir/tile_product.h).
inline constexpr char kTiles[] = "tiles";
// On a loop over a group (value 1) inside a vectorized loop: together they are a dot product of small numbers
// (ir/dot.h, lower/dots.cc).
inline constexpr char kDot[] = "dot";

// On the loop whose iterations prefetch: `prefetch <block> <buffer> <loop>` (value: the number of iterations of <loop>
// between the prefetch and the block's access). The step `prefetch` adds it, since the hints themselves are addresses
// and no longer show their purpose.
inline constexpr char kPrefetchOf[] = "prefetch ";

// On a block that `pad_block` has padded: `original <iterator>` (value: the iterator's extent before padding).
inline constexpr char kOriginal[] = "original ";

}  // namespace autotune
