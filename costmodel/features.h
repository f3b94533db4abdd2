// Features of a scheduled PrimFunc, before lowering: what the cost model learns from. A pure function of program and
// target, thread-safe. They leave out the draft score, which needs no program (tuner/sketch.h), and facts of the build.
//
// Schema. kFeatureVersion changes with it; docs/records.md stores the number. Records hold no features:
// they are computed from a record's trace, so those of two versions never meet. All counts are log2(1 + x).
//
// The function, 8 numbers: flops; bytes of the parameters; blocks; loops; parallel extent; bytes of intermediates;
// lines prefetched; bytes from the start of each prefetched buffer to its first prefetch, added up.
//
// Then kBlocks blocks, the heaviest first. A missing block is all zeros. Each block has
// - arithmetic, 8 numbers: fma, add and subtract, multiply, divide, compare and select, transcendental and integer
//   operations of an innermost iteration; flops of the whole block
// - shape, 10 numbers: iterations, reduction length, parallel extent, iterations per parallel task, vector lanes,
//   unrolled extent, loop depth, is the output in registers, vectors of the register tile, waste by padding
// - buffers, kAccesses accesses of 15 numbers, the one that touches most lines first: bytes of an element; is it a
//   write; contiguity along the vector loop (0 no vector, 1 same element, 2 contiguous, 3 strided); unique bytes in the
//   whole block; for the registers and for each cache, unique bytes and lines that the innermost loops which fit it
//   bring in; how often each element is used; lines of the buffer prefetched; bytes from the access to the prefetch
// - intensity, 6 numbers: flops per unique byte at evenly spaced loop depths
#pragma once
#include <vector>

#include "ir/stmt.h"
#include "target/target.h"

namespace autotune {

inline constexpr int kFeatureVersion = 2;
using Features = std::vector<float>;

int NumFeatures();
Features ExtractFeatures(const PrimFunc& func, const Target& target);  // schedulable dialect

}  // namespace autotune
