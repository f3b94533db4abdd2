// Features of a scheduled function: the input of the cost model. A pure function of the Nest (schedule/nest.h) and the
// target; thread-safe. The draft score, which needs no program (tuner/sketch.h), and facts of the build are not
// features.
//
// Each change of the schema below raises kFeatureVersion, which records store (docs/records.md). Records do not store
// the features: they are computed again from a record's trace, so features of two versions are never mixed. Most
// quantities x appear as log2(1 + x); FeatureName::is_log (costmodel/feature_names.h) tells which.
//
// Blocks that run in `prepare` have no features, since their time is not measured.
//
// The function, 8 numbers: flops; bytes of the parameters; blocks; loops; parallel extent; bytes of intermediates;
// lines prefetched; sum of the bytes by which prefetches are ahead of the accesses.
//
// Then kBlocks blocks, the heaviest first. A missing block is all zeros. Each block has
// - arithmetic, 8 numbers: fma, add and subtract, multiply, divide, compare and select, transcendental and index
//   operations (of subscripts and guards) per innermost iteration; flops of the whole block
// - shape, 14 numbers: iterations, reduction length, parallel extent, iterations per parallel task, vector lanes,
//   unrolled extent, loop depth, whether the output is in registers, vectors of the register tile, iterations per
//   useful one (more than 1 where tiles are padded or overshoot, or parts are computed again), time of the parallel
//   tasks on all cores divided by the time of an even load, guards (0 none, 1 guards or branches, 2 guards that differ
//   between lanes); bytes and lines that one run of a loop touches (for each, the mean of the logarithm over all loops
//   of more than one iteration)
// - buffers, kAccesses accesses of 15 numbers, those that touch most lines first: bytes per element; how it is written
//   (0 not, 1 yes, 2 by streaming stores); contiguity along the vector loop (0 no vector, 1 same element, 2 contiguous,
//   3 strided); unique bytes in the whole block; for the registers and for each cache, the bytes and lines loaded into
//   it (the footprint of the innermost loops that fits, times the iterations of the loops around them); uses per
//   element; prefetched lines of the buffer; bytes by which the prefetches are ahead of the access
// - intensity, 6 numbers: flops per unique byte at evenly spaced loop depths
#pragma once
#include <span>
#include <vector>

#include "schedule/nest.h"
#include "target/target.h"

namespace autotune {

inline constexpr int kFeatureVersion = 4;
using Features = std::vector<float>;

int NumFeatures();
Features ExtractFeatures(const Nest& nest, const Target& target);
void ExtractFeatures(const Nest& nest, const Target& target, std::span<float> out);  // NumFeatures() numbers

}  // namespace autotune
