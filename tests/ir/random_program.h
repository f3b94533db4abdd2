// Random small programs of the schedulable dialect, as te makes them: element-wise chains, reductions, matrix products,
// padding, windows, strides, transpositions, reshapes, slices, diagonals, several outputs. All values are small
// integers, so that every legal reassociation is exact and results compare with ==. Deterministic in the seed.
// For tests.
#pragma once
#include <vector>

#include "ir/interp.h"
#include "ir/stmt.h"

namespace autotune::test {

struct RandomProgramOptions {
  int max_stages = 5;
  int stages = 0;           // if not 0, the exact number of stages
  bool float_only = false;  // if false, some programs are in f64, i32 or i8 instead of f32
  bool odd_shapes = true;   // extents like 5, 7, 13; otherwise powers of two
  int64_t max_extent = 16;
};

// Returns arrays for the parameters of f: integers in [-2, 2] for those that f reads, empty arrays for outputs.
std::vector<InterpArray> RandomArgs(const PrimFunc& f, uint64_t seed);

PrimFunc MakeRandomProgram(uint64_t seed, const RandomProgramOptions& options = {});

}  // namespace autotune::test
