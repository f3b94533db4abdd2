// Features of a scheduled PrimFunc, before lowering: the input of the cost model. A pure function of the program and
// the target, thread-safe. Not here: the draft score, which needs no program (tuner/sketch.h), and facts of the build.
//
// Schema. Each change of it raises kFeatureVersion, which records store (docs/records.md). Records do not store the
// features: these are computed from a record's trace, so features of two versions never meet. Most quantities x are
// stored as log2(1 + x); FeatureName::is_log (costmodel/feature_names.h) tells which.
//
// The function, 8 numbers: flops; bytes of the parameters; blocks; loops; parallel extent; bytes of intermediates;
// lines prefetched; bytes from the start of each prefetched buffer to its first prefetch, added up.
//
// Then kBlocks blocks, the heaviest first. A missing block is all zeros. Each block has
// - arithmetic, 8 numbers: fma, add and subtract, multiply, divide, compare and select, transcendental and integer
//   operations per innermost iteration; flops of the whole block
// - shape, 10 numbers: iterations, reduction length, parallel extent, iterations per parallel task, vector lanes,
//   unrolled extent, loop depth, whether the output is in registers, vectors of the register tile, iterations per
//   useful one (more than 1 where tiles are padded)
// - buffers, kAccesses accesses of 15 numbers, those that touch most lines first: bytes per element; whether it is a
//   write; contiguity along the vector loop (0 no vector, 1 same element, 2 contiguous, 3 strided); unique bytes in the
//   whole block; for the registers and for each cache, the bytes and lines brought into it (the footprint of the
//   innermost loops that fit it, times the iterations of the loops around them); uses per element; lines of the buffer
//   prefetched; bytes from the access to the buffer's first prefetch
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
