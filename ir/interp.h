// The interpreter: the slow, obvious definition of what a program means, in the schedulable and in the lowered dialect
// (ir/stmt.h). Checks every access against its buffer's bounds and reports data races between iterations of parallel
// loops, threads and blocks. Not for speed. Reentrant.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "ir/stmt.h"
#include "support/result.h"

namespace autotune {

// An array in compact, row-major order, whatever strides the buffer has. Every element is a value of dtype. 64-bit
// integers are limited to +-2^53 here; inside a program they are exact.
struct InterpArray {
  DType dtype;
  std::vector<int64_t> shape;
  std::vector<double> data;
};

struct InterpOptions {
  uint64_t order_seed = 0;  // order of parallel iterations and threads: 0 in sequence, else a seeded shuffle
  bool detect_races = true;
  // If given: the number of stores that may still be executed. The interpreter counts it down, and reports an error at
  // the first store beyond it.
  int64_t* stores_left = nullptr;
};

// Runs the function. `args` are in the order of the parameters, and symbolic extents of parameters take their values
// from the arrays' shapes. Outputs are overwritten; elements that the program never writes come back as NaN (integers:
// the least value that the array can hold). An error names the buffer, the index and the block. The errors are:
//  - an access out of bounds, or a read of memory that was never written
//  - a conflict between iterations of a parallel loop, threads or blocks (the error has their indices)
//  - an access to memory that belongs to another thread or block
//  - a barrier that some threads reach and others do not
//  - an iterator outside of its extent
//  - an undefined operation (division by 0)
Status Interpret(const PrimFunc& f, std::vector<InterpArray>& args, const InterpOptions& options = {});

}  // namespace autotune
