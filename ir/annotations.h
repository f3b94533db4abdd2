// The annotations of loops and blocks that lowering and cost models read. Constants only.
#pragma once

namespace autotune {

// Of a serial loop (value 1): the few iterations at its ends in which some guard inside may fail become copies of their
// own, so that the loop that is left needs none, and the guards of the copies are decided when they are compiled.
inline constexpr char kPeel[] = "peel";

// Of a serial loop (value 1): the last of its passes, one that waits for memory, runs in the next iteration, inside a
// loop there that computes, where that keeps the meaning.
inline constexpr char kOverlap[] = "overlap";

// Of a serial loop (value: how many iterations are under way): what it copies to shared memory is copied that many
// iterations minus one ahead (lower/pipeline_loops.cc).
inline constexpr char kPipeline[] = "pipeline";

// Of a loop of two iterations (value 1): it and the two loops inside are a product of matrices that warps compute
// together by tensor cores (ir/mma.h, lower/tensor_cores.cc).
inline constexpr char kMma[] = "mma";

// Of the loop whose iterations prefetch, `prefetch <block> <buffer> <loop>` (value: how many iterations of <loop> the
// prefetch is ahead of the block's access). The step `prefetch` leaves it, since the hints themselves, which are
// addresses, no longer tell what they are for.
inline constexpr char kPrefetchOf[] = "prefetch ";

// Of a block, `original <iterator>` (value: the iterator's extent before `pad_block` let it grow).
inline constexpr char kOriginal[] = "original ";

}  // namespace autotune
