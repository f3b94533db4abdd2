// Features of a scheduled PrimFunc, before lowering: what the cost model learns from. A pure function of program and
// target, thread-safe. Not here: the draft score, which needs no program (tuner/rule.h), and facts of the build.
//
// Schema (kFeatureVersion changes with it; docs/records.md stores the number). All counts as log2(1 + x).
//   function: 6 numbers (flops, bytes of the parameters, blocks, loops, parallel extent, bytes of intermediates)
//   then kBlocks blocks, heaviest first (missing ones are zeros), each with
//     arithmetic     fma, add/sub, mul, div, compare/select, transcendental, integer per innermost iteration; total
//     flops shape          iterations, reduction length, parallel extent, iterations per parallel task, vector lanes,
//                    unrolled extent, loop depth, is the output in registers, register tile vectors, waste by padding
//     buffers        kAccesses accesses, most lines touched first, each: bytes of an element, is write, contiguity of
//     the
//                    vector loop (0 no vector, 1 same element, 2 contiguous, 3 strided), unique bytes in the whole
//                    block, unique bytes and touched lines within the innermost loops that exceed register, L1, L2 and
//                    L3, and how often each element is used
//     intensity      flops per unique byte at 6 evenly spaced loop depths
#pragma once
#include <vector>

#include "ir/stmt.h"
#include "target/target.h"

namespace autotune {

inline constexpr int kFeatureVersion = 1;
using Features = std::vector<float>;

int NumFeatures();
Features ExtractFeatures(const PrimFunc& func, const Target& target);  // schedulable dialect

}  // namespace autotune
